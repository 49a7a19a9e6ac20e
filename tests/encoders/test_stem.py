"""The fast first layers are the plain ones."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, max_pool2d, relu

from earsight.encoders.stem import by_blocks, normed_pool, stem

SIZES = [(3, 224, 224), (1, 257, 276), (1, 257, 300), (2, 33, 30), (1, 32, 33), (3, 7, 5), (1, 1, 1)]
SHAPES = [(32, 64, 112, 112), (16, 64, 129, 138), (3, 64, 17, 15), (2, 16, 1, 2), (5, 128, 9, 8)]
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


@pytest.mark.parametrize(("colours", "height", "width"), SIZES)
def test_a_convolution_of_blocks_is_the_convolution(colours: int, height: int, width: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, colours, height, width, dtype=torch.float64)
    weight = torch.randn(8, colours, 7, 7, dtype=torch.float64, requires_grad=True)
    other = weight.detach().clone().requires_grad_()
    ours, plain = by_blocks(x, weight), conv2d(x, other, stride=2, padding=3)
    assert torch.allclose(ours, plain, atol=1e-12)
    grad = torch.randn_like(plain)
    ours.backward(grad)
    plain.backward(grad)
    assert weight.grad is not None
    assert other.grad is not None
    assert torch.allclose(weight.grad, other.grad, atol=1e-10)


def test_without_a_gpu_the_stem_is_the_plain_layers() -> None:
    torch.manual_seed(0)
    conv, norm = nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16)
    x = torch.randn(2, 3, 32, 40)
    assert torch.equal(stem(conv, norm, x), max_pool2d(relu(norm(conv(x))), 3, 2, 1))


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_relu_and_pooling_at_once_are_the_three_in_a_row(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(shape[1]).cuda()
    nn.init.normal_(norm.weight, 1, 0.3)
    nn.init.normal_(norm.bias, 0, 0.3)
    plain = copy.deepcopy(norm)
    x = (3 + 2 * torch.randn(shape, device="cuda")).bfloat16().contiguous(memory_format=torch.channels_last)
    ours, theirs = x.clone().requires_grad_(), x.float().requires_grad_()
    y, z = normed_pool(norm, ours), max_pool2d(relu(plain(theirs)), 3, 2, 1)
    assert torch.allclose(y.float(), z, atol=0.02, rtol=0.01)
    grad = torch.randn_like(z).bfloat16()
    y.backward(grad)
    z.backward(grad.float())
    pairs = [
        (ours.grad, theirs.grad, 0.01),
        (norm.weight.grad, plain.weight.grad, 1e-3),
        (norm.bias.grad, plain.bias.grad, 1e-3),
        (norm.running_mean, plain.running_mean, 1e-5),
        (norm.running_var, plain.running_var, 1e-5),
    ]
    for mine, other, apart in pairs:
        assert mine is not None
        assert other is not None
        assert float((mine.float() - other).norm()) <= apart * float(other.norm()) + 1e-6
    again = x.clone().requires_grad_()
    normed_pool(copy.deepcopy(plain), again).backward(grad)
    assert again.grad is not None
    assert ours.grad is not None
    assert torch.equal(again.grad, ours.grad)


@pytest.mark.gpu
@gpu
def test_the_fast_stem_is_close_to_the_plain_one() -> None:
    torch.manual_seed(0)
    conv, norm = nn.Conv2d(1, 64, 7, 2, 3, bias=False).cuda(), nn.BatchNorm2d(64).cuda()
    x = torch.randn(4, 1, 257, 276, device="cuda")
    plain = stem(conv, norm, x)
    with torch.autocast("cuda", torch.bfloat16):
        fast = stem(conv, norm, x)
    assert fast.shape == plain.shape
    assert float((fast.float() - plain).abs().mean()) < 0.01
