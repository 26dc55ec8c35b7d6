"""Ops that define their own backward pass, as jax.custom_vjp."""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def _rmsnorm(x, weight, eps):
    return _rmsnorm_forward(x, weight, eps)[0]


def _rmsnorm_forward(x, weight, eps):
    wide = x.astype(jnp.float32)
    inverse = jax.lax.rsqrt((wide * wide).mean(axis=-1, keepdims=True) + eps)
    return (wide * inverse * weight.astype(jnp.float32)).astype(x.dtype), (x, weight, inverse)


def _rmsnorm_backward(saved, dy):
    x, weight, inverse = saved
    wide, dn = x.astype(jnp.float32), dy.astype(jnp.float32) * weight.astype(jnp.float32)
    normal = wide * inverse
    dx = (dn - normal * (dn * normal).mean(axis=-1, keepdims=True)) * inverse
    dweight = (dy.astype(jnp.float32) * normal).sum(axis=0)
    return dx.astype(x.dtype), dweight.astype(weight.dtype), None


_rmsnorm.defvjp(_rmsnorm_forward, _rmsnorm_backward)


@jax.custom_vjp
def _silu(x):
    return _silu_forward(x)[0]


def _silu_forward(x):
    return (x * jax.nn.sigmoid(x.astype(jnp.float32))).astype(x.dtype), x


def _silu_backward(x, dy):
    wide = x.astype(jnp.float32)
    gate = jax.nn.sigmoid(wide)
    return ((dy.astype(jnp.float32) * gate * (1 + wide * jax.nn.sigmoid(-wide))).astype(x.dtype),)


_silu.defvjp(_silu_forward, _silu_backward)


@jax.custom_vjp
def _logsumexp(x):
    return _logsumexp_forward(x)[0]


def _logsumexp_forward(x):
    y = jax.nn.logsumexp(x.astype(jnp.float32), axis=-1)
    return y.astype(x.dtype), (x, y)


def _logsumexp_backward(saved, dy):
    x, y = saved
    return ((dy.astype(jnp.float32)[:, None] * jnp.exp(x.astype(jnp.float32) - y[:, None])).astype(x.dtype),)


_logsumexp.defvjp(_logsumexp_forward, _logsumexp_backward)


def rmsnorm(x, weight, eps):
    return _rmsnorm(x, weight, eps)


def silu(x):
    return _silu(x)


def logsumexp(x):
    return _logsumexp(x)
