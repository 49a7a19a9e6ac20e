"""The first layers of a ResNet: a 7x7 convolution by 2, batch norm, ReLU and a 3x3 max pooling by 2.

They see the largest pictures with the fewest channels, which is what GPUs are worst at. In half precision on a GPU the
same sums are therefore taken in another order; elsewhere torch's own layers are called one after another.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d, pad, relu

from earsight.device import HAS_KERNELS


def stem(conv: nn.Conv2d, norm: nn.Module, x: Tensor) -> Tensor:
    """(B, c, H, W) -> (B, C, H / 4, W / 4), both halvings rounded up."""
    if not (x.is_cuda and torch.is_autocast_enabled("cuda")):
        return max_pool2d(relu(norm(conv(x))), 3, 2, 1)
    half = torch.get_autocast_dtype("cuda")
    x = by_blocks(x.to(half), conv.weight.to(half))
    # Batch norms over several processes, or with fixed statistics, go their own way.
    if HAS_KERNELS and isinstance(norm, nn.BatchNorm2d) and norm.training and x.shape[1] in (16, 32, 64, 128):
        return normed_pool(norm, x)
    return max_pool2d(relu(norm(x)), 3, 2, 1)


def by_blocks(x: Tensor, weight: Tensor) -> Tensor:
    """A 7x7 convolution by 2 with padding 3, of blocks of 2 x 4 pixels that became channels.

    A block row gives two outputs at once, whose channels lie behind each other: channels-last, that is the same memory
    as two neighbouring outputs. GPUs then see 8 or 24 channels in and twice as many out, and no stride.

    x (B, c, H, W), weight (C, c, 7, 7) -> (B, C, H / 2, W / 2), both rounded up; an odd width is cut from a wider one.
    """
    (_, c, height, width), out = x.shape, weight.shape[0]
    h, w = (height + 1) // 2, (width + 1) // 2
    pairs = (w + 1) // 2
    # Output o sees rows 2o - 3 ... 2o + 3. With a zero before them that is 8 rows, or 4 blocks, from 2o - 4 on.
    right, below = 4 * (pairs - 1) + 12 - 4 - width, 2 * (h - 1) + 8 - 4 - height
    blocks = pad(x, (4, right, 4, below))
    blocks = blocks.reshape(x.shape[0], c, h + 3, 2, pairs + 2, 4).permute(0, 1, 3, 5, 2, 4).flatten(1, 3)
    wide = pad(weight, (1, 0, 1, 0))
    # The second output of a pair is two columns to the right of the first.
    kernels = torch.stack([pad(wide, (0, 4)), pad(wide, (2, 2))]).flatten(0, 1)
    kernels = kernels.reshape(2 * out, c, 4, 2, 3, 4).permute(0, 1, 3, 5, 2, 4).flatten(1, 3)
    last = torch.channels_last
    both = conv2d(blocks.contiguous(memory_format=last), kernels.contiguous(memory_format=last))
    lines = both.permute(0, 2, 3, 1).reshape(x.shape[0], h, 2 * pairs, out)[:, :, :w]
    return lines.permute(0, 3, 1, 2)


def normed_pool(norm: nn.BatchNorm2d, x: Tensor) -> Tensor:
    """Batch norm with the batch's statistics, ReLU and pooling at once; the running statistics follow."""
    from earsight.encoders import stem_ops  # which needs a GPU's compiler

    y, mean, var, _, _ = stem_ops.normed_pool(x, norm.weight, norm.bias, norm.eps)
    if norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked is not None:
        with torch.no_grad():
            count = x.numel() // x.shape[1]
            norm.num_batches_tracked.add_(1)
            share = norm.momentum if norm.momentum is not None else 1 / norm.num_batches_tracked.float()
            norm.running_mean.lerp_(mean, share)
            norm.running_var.lerp_(var * (count / (count - 1)), share)
    out: Tensor = y
    return out
