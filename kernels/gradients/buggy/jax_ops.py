"""Backward passes with one bug each; the forward passes are those of the correct ops."""

import jax
import jax.numpy as jnp

from kernels.gradients import jax_ops as right


@jax.custom_vjp
def _rmsnorm(x, weight, eps):
    return right._rmsnorm_forward(x, weight, eps)[0]


def _weight_of_the_mean_row(saved, dy):
    """dweight is the mean over the rows instead of their sum: correct for one row."""
    dx, dweight, _ = right._rmsnorm_backward(saved, dy)
    return dx, dweight / dy.shape[0], None


_rmsnorm.defvjp(right._rmsnorm_forward, _weight_of_the_mean_row)


@jax.custom_vjp
def _silu(x):
    return right._silu_forward(x)[0]


def _gate_alone(x, dy):
    """The derivative of the gate is missing: nearly correct where the gate is saturated."""
    return ((dy.astype(jnp.float32) * jax.nn.sigmoid(x.astype(jnp.float32))).astype(x.dtype),)


_silu.defvjp(right._silu_forward, _gate_alone)


@jax.custom_vjp
def _logsumexp(x):
    return right._logsumexp_forward(x)[0]


def _tail_left_out(saved, dy):
    """Elements from 64 on get no derivative: a tail that a tiled kernel never reaches."""
    (dx,) = right._logsumexp_backward(saved, dy)
    return (dx.at[:, 64:].set(0),)


_logsumexp.defvjp(right._logsumexp_forward, _tail_left_out)


def rmsnorm(x, weight, eps):
    return _rmsnorm(x, weight, eps)


def silu(x):
    return _silu(x)


def logsumexp(x):
    return _logsumexp(x)
