"""Every way to write a spec wrongly, and the message it gets: where, what, and the fix.

A row replaces one piece of a valid spec (``conftest.SOFTMAX``); its messages are whole, without ``specs/s.yaml:``.
"""

# ruff: noqa: E501 -- a message is one line
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        ('dims: {M', 'dimz: {M', ["5:1: unknown key 'dimz'; did you mean 'dims'?"]),
        ('1..64', '1-64', ["5:11: 'M' must be a range such as 1..64, not '1-64'; write 1..64"]),
        ('1..64', '64', ["5:11: 'M' must be a list of sizes, a range such as 1..64, {range: 1..64, tile: 32} or {expr: 2 * N}, not 64; write [64]"]),
        ('1..64', '64..1', ['5:11: the range 64..1 is empty; write 1..64']),
        ('1..64', '2 * N', ["5:11: 'M' must be a range such as 1..64, not '2 * N'; write {expr: 2 * N} for a derived size"]),
        ('[M, N]}\nout', '[m, N]}\nout', ["6:14: unknown dim or param 'm' in shape [m, N]; did you mean 'M'?"]),
        ('y: [M, N]}', 'x: [M, N]}', ["7:11: the name 'x' is already used by the input on line 6; to compute it in place, rename the output and add `alias: x` to it", "8:20: unknown argument 'y' in args; available: M, N, x"]),
        ('op: softmax\n', 'op: softmax\nparams: {a: [1, 2]}\n', ["3:13: 'a' must be a mapping with dtype and either expr or values, not a list"]),
        ('[x, y]', '[x, z]', ["8:20: unknown argument 'z' in args; available: M, N, x, y"]),
        ('[x, y]', '[x]', ["8:16: the output 'y' is not in args, so the kernel cannot write it; add 'y'"]),
        ('y: [M, N]', 'y: [M, N / 2]', ["7:20: in shape [M, N / 2]: '/' can give a fraction, but a size is a whole number; write '//'"]),
        ('grid: [M]', 'grid: [ceildiv(M * N, 256)]', ['8:31: in grid: a comma ends a list item in YAML, even inside parentheses; quote it: "ceildiv(M * N, 256)"']),
        ('y: [M, N]', 'y: [M, max(N, min(M, N))]', ['7:18: in shape [M, max(N, min(M, N))]: a comma ends a list item in YAML, even inside parentheses; quote it: "max(N, min(M, N))"']),
        ('grid: [M]', 'grid: [(M, N]', ["8:31: in grid: this parenthesis is never closed; add ')'"]),
        ('grid: [M]', 'gird: [M]', ["8:24: unknown key 'gird' in 'launch'; did you mean 'grid'?"]),
        ('op: softmax', 'op: Soft-Max', ["2:5: 'op' must be a name such as softmax (a to z, 0 to 9 and _, starting with a letter), not 'Soft-Max'; write soft_max"]),
        ('kcheck: 1', 'kcheck: 2', ["1:9: 'kcheck' must be 1, not 2; write 1"]),
        ('kcheck: 1\n', '', ["1:1: missing key 'kcheck'; start with 'kcheck: 1'"]),
        ('kernels/softmax', 'kernels/sofmax', ["3:9: kernel: there is no file 'kernels/sofmax.py' in the project; did you mean 'softmax.py'?"]),
        ('py:softmax\nref', 'py:sofmax\nref', ["3:9: kernel: 'kernels/softmax.py' does not define 'sofmax'; did you mean 'softmax'?"]),
        ('kernels/softmax', '../softmax', ["3:9: kernel: the path '../softmax.py' is outside the project root; move the file into the project"]),
        ('kernels/softmax.py:softmax', 'kernels/softmax.py', ["3:9: 'kernel' must be a kernel in a file, such as kernels/softmax.py:softmax or kernels/softmax.cu:softmax, not 'kernels/softmax.py'; write kernels/softmax.py:name"]),
        ('x: [M, N]', 'x: {shape: [M, N], values: normall}', ["6:37: unknown distribution 'normall'; did you mean 'normal'?"]),
        ('x: [M, N]', 'x: {shape: [M, N], values: {normal: 3}}', ["6:46: 'normal' must be a list of two numbers [mean, std], not 3"]),
        ('x: [M, N]', 'x: {shape: [M, N], values: integers}', ["6:37: distribution 'integers' needs an argument; write {integers: [0, 9]}"]),
        ('x: [M, N]', 'x: {shape: [M, N], values: {zeros: 1}}', ["6:38: distribution 'zeros' takes no argument; write zeros"]),
        ('x: [M, N]', 'x: {shape: [M, N], dtype: int32, values: normal}', ["6:51: distribution 'normal' is for floats, but 'x' can be int32; int32 takes ties, sorted, zeros, ones, constant, choice, empty_rows, empty_tiles, integers, permutation, one_hot, bernoulli, offsets, from"]),
        ('x: [M, N]', 'x: {shape: [M, N], dtype: flaot32}', ["6:36: unknown dtype 'flaot32' in input 'x'; did you mean 'float32'?"]),
        ('x: [M, N]', 'x: {shape: [M, N], layouts: [contigous]}', ["6:39: unknown layout 'contigous'; did you mean 'contiguous'?"]),
        ('y: [M, N]', 'y: {shape: [M, N], layouts: [broadcast]}', ["7:40: 'y' cannot be broadcast: it is an output, and its elements would share memory; use broadcast only for inputs that the kernel does not write"]),
        ('x: [M, N]', 'x: {shape: [N], layouts: [transposed]}', ["6:36: 'x' cannot be transposed: it has 1 axis; transposed needs at least 2"]),
        ('block: [256]', 'block: 256', ["8:42: 'block' must be a list of 1 to 3 expressions, not 256; write [256]"]),
        ('block: [256]', 'block: [2048]', ['8:42: the block has 2048 threads; CUDA allows at most 1024; use a smaller block and a larger grid']),
        ('block: [256]', 'block: [256, 1, 1, 1]', ["8:42: 'block' must have at most 3 items, not 4"]),
        ('block: [256]}', 'block: [256]', ["8:9: this mapping is not closed; add ',' between entries, and '}' at the end"]),
        ('block: [256]', "block: ['9**9**9']", ['8:45: in block: 9 ** 387420489 is an integer of more than 256 bits']),
        ('inputs: {x', 'inputs: {N', [
            "4:12: reference 'softmax' takes 'x', which kcheck does not pass; kcheck passes M, N",
            "6:10: the name 'N' is already used by the dim on line 5; dims, params and arrays share one namespace: rename one of them",
            "8:17: unknown argument 'x' in args; available: M, N, y",
        ]),
        ('grid: [M]', 'grid: ceildiv(M, 4)', [
            "8:30: 'grid' must be a list of 1 to 3 expressions, not the string 'ceildiv(M, 4)'; write [\"ceildiv(M, 4)\"]",
        ]),
        ('grid: [M]', 'grid: ceildiv(min(M, N), 4)', [
            "8:30: 'grid' must be a list of 1 to 3 expressions, not the string 'ceildiv(min(M, N), 4)'; write [\"ceildiv(min(M, N), 4)\"]",
        ]),
        ('op: softmax\n', 'op: softmax\nop: x\n', ["3:1: duplicate key 'op'; it is first set on line 2; remove one"]),
        ('N: 1..2048', 'N: 1..2048, K: {expr: L}, L: {expr: K + 1}', ["5:40: dim 'K' depends on itself: K -> L -> K; break the cycle: give one of them explicit values"]),
        ('outputs', 'constraints: [M > 64]\noutputs', ['7:15: no sizes satisfy the constraint M > 64; change it, or the dims in it']),
        ('outputs', 'constraints: [M > 5, M < 3]\noutputs', ['7:22: no sizes satisfy the constraint M < 3 together with those before it; change one of them']),
        ('outputs', 'constraints: [M + N]\noutputs', ["7:15: in constraint: expected a condition, found a number; compare it with '<=', '==', ..."]),
        ('outputs', 'constraints: [x < 3]\noutputs', ["7:15: 'x' in constraint is an input, not a dim; available: M, N"]),
        ('op: softmax\n', 'op: softmax\ndeterministic: yes\n', ["3:16: 'deterministic' must be true or false, not the string 'yes'; write true"]),
        ('op: softmax\n', 'op: softmax\ncases: 12\n', ["3:8: 'cases' must be a mapping of count, seed, memory, not 12; write {count: 12}"]),
        ('op: softmax\n', 'op: softmax\ndescription: 5\n', ["3:14: 'description' must be a string, not 5; quote it: '5'"]),
        ('op: softmax\n', 'op: softmax\ncases: {count: 1_000, seed: -1}\n', [
            "3:16: 'count' must be a non-negative integer, not the string '1_000'; write 1000, without quotes or '_'",
            "3:29: 'seed' must be at least 0, not -1",
        ]),
        ('op: softmax\n', 'op: softmax\ncases: {count: 10.0}\n', ["3:16: 'count' must be a non-negative integer, not 10.0; write 10"]),
        ('op: softmax\n', 'op: softmax\nlauncher: kernels/softmax.py:softmax\n', ["3:1: 'launch' and 'launcher' cannot be combined; keep one of them"]),
        ('launch: {args: [x, y], grid: [M], block: [256]}\n', '', ["1:1: missing key 'launch'; add 'launch: {args: [...], grid: [...], block: [...]}', or a launcher"]),
        ('op: softmax\n', 'op: softmax\nsanitize: {racechek: off}\n', ["3:12: unknown key 'racechek' in 'sanitize'; did you mean 'racecheck'?"]),
        ('op: softmax\n', 'op: softmax\nsanitize: {unwriten: off}\n', ["3:12: unknown key 'unwriten' in 'sanitize'; did you mean 'unwritten'?"]),
        ('op: softmax\n', 'op: softmax\nsanitize: {overflow: warning}\n', ["3:22: unknown level 'warning'; did you mean 'warn'?"]),
        ('op: softmax\n', 'op: softmax\nsanitize: {racecheck: none}\n', ["3:23: unknown level 'none'; write error, warn or off"]),
        ('op: softmax\n', 'op: softmax\ntolerance: {flot32: {atol: 1}}\n', ["3:13: unknown dtype 'flot32'; did you mean 'float32'?"]),
        ('op: softmax\n', 'op: softmax\ntolerance: {float32: {atoll: 1}}\n', ["3:23: unknown key 'atoll' in 'float32'; did you mean 'atol'?"]),
        ('op: softmax\n', 'op: softmax\ntolerance: conditoned\n', ["3:12: unknown tolerance 'conditoned'; did you mean 'conditioned'?"]),
        ('op: softmax\n', "op: softmax\ninvariants: [finit, non_negative, 'sum(y)', 'x > 0', {normalised: y}, {normalized: y}, {non_negative: x}, 'max(yy) < 3']\n", [
            "3:14: unknown invariant 'finit'; did you mean 'finite'?",
            "3:21: the invariant 'non_negative' needs an output; write {non_negative: out}",
            "3:36: in invariant: expected a condition, found a number; compare it with '<=', '==', ...",
            '3:45: this invariant uses no output, so it does not check the kernel; name one',
            "3:55: unknown key 'normalised' in 'invariants'; did you mean 'normalized'?",
            "3:84: 'normalized' must be a mapping {of: out, axis: -1}, not the string 'y'",
            "3:103: 'x' in 'non_negative' is an input, not an output; available: y",
            "3:112: unknown name 'yy' in invariant; did you mean 'y'?",
        ]),
        ('op: softmax\n', 'op: softmax\nmutates: [y]\nallow_races: [shred]\n', [
            "3:11: 'y' in mutates is an output, not an input; available: x",
            "4:15: unknown array 'shred' in allow_races; available: x, y",
        ]),
        ('op: softmax\n', 'op: softmax\nparams: {a: {dtype: float32}, b: {expr: 1}, c: {dtype: int8, values: [300, 1.5]}, d: {dtype: float32, expr: 1, values: [1]}}\n', [
            "3:13: missing key 'values' in 'a'; add 'values: [...]' or 'expr: ...'",
            "3:34: missing key 'dtype' in 'b'; add 'dtype: float32'",
            "3:71: 300 is outside -128..127, but param 'c' can be int8",
            "3:76: 1.5 is not a whole number, but param 'c' can be int8",
            "3:112: 'expr' and 'values' cannot be combined; keep one of them",
        ]),
        ('op: softmax\n', 'op: softmax\nparams: {a: {dtype: float32, valus: [1]}, b: {dtype: float32, shape: [1]}}\n', [
            "3:30: unknown key 'valus' in 'a'; did you mean 'values'?",
            "3:46: missing key 'values' in 'b'; add 'values: [...]' or 'expr: ...'",
            "3:63: unknown key 'shape' in 'b'; write dtype, expr or values",
        ]),
        ('op: softmax\n', 'op: softmax\nexamples: [{dims: {M: 65, Q: 1}}, {dtypes: {T: float16}}, {values: {x: {constant: a}}}, {layouts: {y: broadcast}}, {}]\n', [
            "3:23: dim 'M' cannot be 65; its range is 1..64",
            "3:27: unknown dim 'Q' in example; available: M, N",
            "3:48: type variable 'T' cannot be float16; its dtypes are float32",
            "3:83: 'constant' must be a number, true or false, not the string 'a'",
            "3:103: 'y' cannot be broadcast: it is an output, and its elements would share memory; use broadcast only for inputs that the kernel does not write",
            "3:116: an item of 'examples' is empty; write a mapping of dims, dtypes, values, layouts, params, or remove the key",
        ]),
        ('op: softmax\n', "op: softmax\nartifact: {targets: [sm80, sm_999], required_patterns: ['a(b'], max_registers: many}\n", [
            "3:22: an item of 'targets' must be a target such as sm_80, not 'sm80'",
            "3:28: an item of 'targets' must be a target such as sm_80, not 'sm_999'",
            "3:59: this is not a valid regular expression: missing ), unterminated subpattern; put a '\\' before special characters",
            "3:80: 'max_registers' must be a non-negative integer, not the string 'many'",
        ]),
        ('op: softmax\n', 'op: softmax\n\tx: 1\n', ['3:1: a tab cannot be used for indentation; indent with spaces']),
        ('op: softmax\n', 'op: softmax: 1\n', ["2:12: a second ':' in one entry; quote text that contains ': ', or start a new line"]),
        ('op: softmax\n', "op: 'softmax\n", ['2:5: this quoted text is not closed; add the closing quote']),
        ('op: softmax\n', 'op: *softmax\n', ['2:5: the alias *softmax has no anchor; quote it if it is a string']),
        ('op: softmax\n', 'op: !!str softmax\n', ["2:5: YAML tags such as 'tag:yaml.org,2002:str' are not supported; remove it"]),
        ('op: softmax\n', 'op: @softmax\n', ["2:5: text cannot start with '@' or '`'; quote it"]),
        ('[256]}\n', '[256]}\n---\na: 1\n', ['9:1: a second YAML document starts here; write one spec per file']),
        ('[x, y]', '[x, y, {M: int23}, {stride: [x, 2]}, {x: int32}, {stride: [z, 0]}]', [
            "8:27: unknown integer dtype 'int23'; did you mean 'int32'?",
            "8:48: 'x' has no axis 2: it has 2 axes",
            "8:54: 'x' in args is an input, not a dim; available: M, N",
            "8:75: unknown array 'z' in stride; available: x, y",
        ]),
        ('op: softmax\n', 'op: softmax\ndtypes: [float32, float31]\n', ["3:19: unknown dtype 'float31'; did you mean 'float32'?"]),
        ('op: softmax\n', 'op: softmax\ndtypes: {A: [float32]}\n', [
            "7:10: input 'x' has no dtype, and there is no type variable 'T'; write {shape: [M, N], dtype: A}",
            "8:11: output 'y' has no dtype, and there is no type variable 'T'; write {shape: [M, N], dtype: A}",
        ]),
        ('op: softmax\n', 'op:\n', ["2:4: 'op' has no value; write a name such as softmax (a to z, 0 to 9 and _, starting with a letter)"]),
        ('dims: {M', 'constraints:\ndims: {M', ["5:13: 'constraints' has no value; write a list of conditions over dims"]),
        ('y: [M, N]', 'y: {shape: [M, N], alias: z}', ["7:37: unknown input 'z' in alias; available: x"]),
        ('y: [M, N]', 'y: {shape: [M, M], alias: x}', ["7:11: 'y' shares the memory of 'x' but has a different shape; write the shape [M, N]"]),
        ('y: [M, N]', 'y: [M, N - 5]', ['7:18: for N = 1: a size must not be negative, but is -4; add a constraint that excludes such sizes']),
        ('[x, y]', '[x, null]', [
            "8:16: the output 'y' is not in args, so the kernel cannot write it; add 'y'",
            "8:20: a kernel of Numba cannot get None; pass an array or a number"
        ]),
        ('[x, y]', '[x, y, N]', ["8:16: kernel 'softmax' takes 2 arguments, but args has 3; its parameters are x, y"]),
        ('op: softmax\n', 'op: softmax\n<<: {a: 1}\n', ["3:1: unknown key '<<'; merge keys are not part of YAML 1.2: write the keys out"]),
        ('x: [M, N]', 'x: {shape: [M, N], values: {uniform: [1, 1]}}', ["6:47: 'uniform' is empty: there are no numbers between 1 and 1; write [low, high]"]),
        ('x: [M, N]', 'x: {shape: [M, N], values: {normal: [0, -1]}}', ["6:50: the standard deviation of 'normal' must not be negative, but is -1"]),
        ('x: [M, N]', 'x: {shape: [M, N], dtype: uint8, values: {integers: [0, 256]}}', ["6:66: 256 is outside 0..255, but 'x' can be uint8"]),
        ('x: [M, N]', 'x: {shape: [M, N], dtype: int32, values: {integers: [0, Q - 1]}}', ["6:66: unknown dim or param 'Q' in 'integers' of 'x'; available: M, N"]),
        ('x: [M, N]', 'x: {shape: [M, N], dtype: int32, values: {choice: [1, .nan]}}', ["6:64: .nan is not a whole number, but 'x' can be int32"]),
        ('x: [M, N]', 'x: {shape: [M, N], values: {one_hot: 2}}', ["6:47: 'one_hot' uses axis 2, but 'x' has 2 axes"]),
        ('x: [M, N]', 'x: {shape: [M, N], values: {bernoulli: 1.5}}', ["6:49: 'bernoulli' must be at most 1, not 1.5"]),
        ('x: [M, N]', 'x: {shape: [M, N], values: {from: references/softmax.py:make}}', ["6:44: generator: 'references/softmax.py' does not define 'make'; define it at the top level of the file"]),
        ('x: [M, N]', 'x: {shape: [M, N], values: {from: references/softmax.py:softmax}}', ["6:44: generator 'softmax' takes 'x', which kcheck does not pass; kcheck passes rng, shape, dtype, M, N"]),
        ('x: [M, N]', 'x: {shape: [M, N], dtype: int32, allow_inf: true}', ["6:54: allow_inf is for floats with infinities, but 'x' can be int32; remove it"]),
        ('x: [M, N]', 'x: {shape: [M, N], values: {gaussian: [0, 1]}}', ["6:38: unknown distribution 'gaussian'; available: normal, uniform, offset, sorted, constant, choice, integers, one_hot, bernoulli, offsets, probabilities, from, adversarial, all_negative, all_positive, large, tiny, cancelling, spikes, outlier, ties, extreme, subnormal, zeros, ones, nan_injected, inf_injected, empty_rows, empty_tiles, permutation"]),
        ('x: [M, N]', 'x: {shape: [M, N], layouts: [strided, strided]}', ["6:48: the string 'strided' appears twice in 'layouts'; remove one"]),
        ('x: [M, N]', 'x: {layouts: [strided]}', ["6:13: missing key 'shape' in 'x'; add 'shape: [N]'"]),
        ('x: [M, N]', "x: [M, 'max(N)']", ['6:18: in shape [M, max(N)]: max takes at least 2 arguments here, not 1']),
        ('x: [M, N]', 'x: [M, N, 0 - 1]', ['6:20: in shape [M, N, 0 - 1]: a size must not be negative, but is -1']),
        ('x: [M, N]', 'x: [M, q.shape]', ["6:18: in shape [M, q.shape]: '.' is not allowed in an expression; attributes are not supported in expressions"]),
        ('x: [M, N]', 'x: 5', ["6:13: 'x' must be a shape such as [M, N], or a mapping with shape, not 5"]),
        ('M: 1..64', 'if: 1..64, M: 1..64', ["5:8: 'if' cannot be a name: it is reserved in Python or YAML; rename it"]),
        ('M: 1..64', '1M: 1..64, M: 1..64', ["5:8: the key '1M' in 'dims' must be a name (letters, digits and _, not starting with a digit)"]),
        ('M: 1..64', 'M: {range: 1..64, tile: 0}', ["5:32: 'tile' must be at least 1, not 0"]),
        ('M: 1..64', 'M: {range: 1..64, expr: N}', ["5:11: dim 'M' has both 'expr' and 'range'; a derived dim takes 'expr' only"]),
        ('M: 1..64', 'M: {tile: 32}', ["5:11: dim 'M' has a tile but no range; add 'range: 1..64'"]),
        ('M: 1..64', 'M: []', ["5:11: 'M' is empty; write a list of sizes, or remove the key"]),
        ('M: 1..64', 'M: [-1]', ["5:12: an item of 'M' must be at least 0, not -1"]),
        ('M: 1..64', 'M: 1..99999999999999', ['5:11: this size is too large; the limit is 1099511627776 elements']),
        ('M: 1..64', 'M: {expr: x}', ["5:18: 'x' in dim 'M' is an input, not a dim; available: M, N"]),
        ('M: 1..64', 'M: {expr: N - 5000}', ["5:18: dim 'M' has no valid size: N - 5000 is negative or not a whole number; change it, or the dims that it depends on"]),
        ('outputs: {y: [M, N]}', 'outputs: {}', [
            "7:10: 'outputs' is empty; write a mapping of names to arrays, or remove the key",
            "8:20: unknown argument 'y' in args; available: M, N, x",
        ]),
        ('outputs: {y: [M, N]}', 'outputs: {y: {shape: [M, N], alias: x, layouts: [strided]}}', ["7:49: 'y' shares the memory of 'x', so it cannot have its own layouts; set them on the input"]),
        ('outputs: {y: [M, N]}', 'outputs: {y: {shape: [M, N], alias: x, dtype: float64}}', ["7:11: 'y' shares the memory of 'x' but has a different dtype; write 'dtype: T'"]),
        ('outputs: {y: [M, N]}', 'outputs: {y: {shape: [M, N], alias: x}, z: {shape: [M, N], alias: x}}', ["7:67: 'y' is already computed in place in 'x'; alias another input"]),
        ('reference: references/softmax.py:softmax', 'reference: /etc/softmax.py:softmax', ["4:12: reference: the path '/etc/softmax.py' is not relative; write it relative to the project root"]),
        ('reference: references/softmax.py:softmax', 'reference: references\\softmax.py:softmax', ["4:12: reference: the path 'references\\\\softmax.py' has a '\\'; write '/' between folders"]),
        ('reference: references/softmax.py:softmax', 'reference: reference/softmax.py:softmax', ["4:12: reference: there is no file 'reference/softmax.py' in the project; did you mean 'references'?"]),
        ('reference: references/softmax.py:softmax', 'reference: references/broken.py:softmax', ['references/broken.py:1:7: this is not valid Python: invalid syntax']),
        ('reference: references/softmax.py:softmax', 'reference: references/wants.py:softmax', ["4:12: reference 'softmax' takes 'X', which kcheck does not pass; did you mean 'x'?"]),
        ('op: softmax\n', 'op: softmax\ncompute: float12\n', ["3:10: unknown dtype 'float12'; did you mean 'float32'?"]),
        ('op: softmax\n', 'op: softmax\ncompare: {nan: equal}\n', ["3:16: unknown rule for NaN 'equal'; write match, forbid or ignore"]),
        ('op: softmax\n', 'op: softmax\ndtypes: {float32: [float32]}\n', [
            "3:10: a type variable cannot be called 'float32', which is a dtype; rename it",
            "7:10: input 'x' has no dtype, and there is no type variable 'T'; write {shape: [M, N], dtype: float32}",
            "8:11: output 'y' has no dtype, and there is no type variable 'T'; write {shape: [M, N], dtype: float32}",
        ]),
        ('op: softmax\n', 'op: softmax\ninvariants: [{symmetric: y}, {normalized: {of: y, axis: 2}}]\n', ["3:57: 'y' has no axis 2: it has 2 axes"]),
        ('op: softmax\n', 'op: softmax\nparams: {a: {dtype: float32, expr: b}, b: {dtype: float32, expr: a + 1}}\n', ["3:36: param 'a' depends on itself: a -> b -> a; break the cycle: give one of them explicit values"]),
        ('op: softmax\n', 'op: softmax\nparams: {a: {dtype: bool, values: [2]}}\n', ["3:36: 2 is not true or false, but param 'a' can be bool"]),
        ('op: softmax\n', 'op: softmax\nconstraints: [9**9**9 > M]\n', ['3:16: in constraint: 9 ** 387420489 is an integer of more than 256 bits']),
        ('op: softmax\n', "op: softmax\nconstraints: ['(M < 3']\n", ["3:16: in constraint: this parenthesis is never closed; add ')'"]),
        ('op: softmax\n', 'op: softmax\nconstraints: [M << 3]\n', ["3:18: in constraint: expected a value, found '<'"]),
        ('op: softmax\n', 'op: softmax\nconstraints: [M * N <= 64]\nexamples: [{dims: {M: 64, N: 64}}]\n', ['4:19: the sizes of this example violate the constraints; choose sizes that satisfy all of them']),
        ('op: softmax\n', 'op: softmax\nexamples: [{params: {a: 1}, layouts: {q: strided}, values: {y: normal}}]\n', [
            "3:22: unknown param 'a' in example; declare 'a'",
            "3:39: unknown array 'q' in example; available: x, y",
            "3:61: 'y' in example is an output, not an input; available: x",
        ]),
        ('op: softmax\n', 'op: "soft\\nmax"\n', ["2:5: 'op' must be a name such as softmax (a to z, 0 to 9 and _, starting with a letter), not 'soft\\nmax'; write soft_max"]),
        ('op: softmax\n', 'op: softmax\ntags: [1, x]\n', ["3:8: an item of 'tags' must be a string, not 1; quote it: '1'"]),
        ('op: softmax\n', 'op: softmax\ntolerance: {float32: {atol: .inf}}\n', ['3:29: atol of float32 must be finite, not inf; write a number']),
        ('kcheck: 1', 'KCHECK: 1', ["1:1: unknown key 'KCHECK'; did you mean 'kcheck'?"]),
    ],
)  # fmt: skip
def test_a_wrong_spec_says_where_and_what(
    old: str, new: str, messages: list[str], project: Path, faults: Callable[[str], list[str]], softmax: str
) -> None:
    """Each mistake is one fault, with its place, its sentence and its fix."""
    (project / "references/broken.py").write_text("def f(:\n")
    (project / "references/wants.py").write_text("def softmax(X, M, eps=1): return X\n")
    assert softmax.count(old) >= 1
    assert [text.removeprefix("specs/s.yaml:") for text in faults(softmax.replace(old, new, 1))] == messages


def test_all_faults_are_found_at_once_in_order(faults: Callable[[str], list[str]], softmax: str) -> None:
    """A spec with mistakes in its YAML, schema, names, expressions and files is told of all of them in one go."""
    text = softmax.replace("op: softmax", "op: Softmax\nop: again\ncolour: red")
    text = text.replace("[M, N]}\nout", "[m, N]}\nout").replace("kernels/", "kernel/").replace("[256]", "[0.5]")
    found = faults(text)
    assert [fault.split(": ")[0].removeprefix("specs/s.yaml:") for fault in found] == [
        "2:5", "3:1", "4:1", "5:9", "8:14", "10:43",
    ]  # fmt: skip


def test_a_kernel_that_is_not_found_is_not_asked_for_a_block(
    faults: Callable[[str], list[str]], softmax: str
) -> None:
    """It may be a Triton kernel, which has none; a kernel that is found must have one."""
    without = softmax.replace(", block: [256]", "")
    assert faults(without) == ["specs/s.yaml:8:9: missing key 'block' in 'launch'; add 'block: ...'"]
    (told,) = faults(without.replace("py:softmax", "py:sofmax", 1))
    assert "does not define 'sofmax'" in told


def test_the_valid_spec_has_no_faults(faults: Callable[[str], list[str]], softmax: str) -> None:
    """What the table breaks is whole before."""
    assert faults(softmax) == []


def test_a_missing_file_without_a_similar_name_has_a_fix(faults: Callable[[str], list[str]], softmax: str) -> None:
    """The most likely mistake is the folder that the path starts from."""
    (fault,) = faults(softmax.replace("kernels/softmax.py", "kernels/unrelated.py"))
    assert (
        "there is no file 'kernels/unrelated.py' in the project; paths are relative to the project root, " in fault
    )
