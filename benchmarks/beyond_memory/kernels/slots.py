def slots(rng, shape, dtype, S):
    import numpy as np

    step = S // shape[0]
    return (np.arange(shape[0]) * step + rng.integers(0, step - 1, shape[0])).astype(dtype)
