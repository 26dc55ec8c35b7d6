"""Backward passes with one bug each; the forward passes are those of the correct ops."""

import torch

from kernels.gradients import torch_ops as right


class SoftmaxWithoutSum(right.Softmax):
    """Only the derivative of exp(x): the denominator is treated as a constant."""

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        return (y.float() * dy.float()).to(y.dtype)


class LayerNormWithoutMean(right.LayerNorm):
    """The mean of x is treated as a constant: its term is missing from dx."""

    @staticmethod
    def backward(ctx, dy):
        normal, inverse, weight = ctx.saved_tensors
        _, dweight, dbias, _ = right.LayerNorm.backward(ctx, dy)
        dn = dy.float() * weight.float()
        dx = (dn - normal * (dn * normal).mean(dim=-1, keepdim=True)) * inverse
        return dx.to(ctx.dtype), dweight, dbias, None


class GeluOfTanh(right.Gelu):
    """The forward is exact; the backward is that of the approximation by tanh."""

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            copy = x.double().requires_grad_()
            y = torch.nn.functional.gelu(copy, approximate="tanh")
        return torch.autograd.grad(y, copy, dy.double())[0].to(x.dtype)


def softmax(x: torch.Tensor):
    return SoftmaxWithoutSum.apply(x)


def layernorm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps):
    return LayerNormWithoutMean.apply(x, weight, bias, eps)


def gelu(x: torch.Tensor):
    return GeluOfTanh.apply(x)
