"""The GPU's kernels on a CPU, by triton's interpreter, on a few numbers. Run as a program: the interpreter is chosen
when the kernels are imported."""

from __future__ import annotations

import os
from typing import Any


def stem() -> None:
    import torch
    from torch import nn
    from torch.nn.functional import max_pool2d, relu

    from earsight.encoders import stem_ops
    from earsight.encoders.stem import normed_pool

    stem_ops.PROGRAMS, stem_ops.BLOCK = 3, 16
    torch.manual_seed(0)
    norm, plain = nn.BatchNorm2d(16), nn.BatchNorm2d(16)
    for batch_norm in (norm, plain):
        nn.init.constant_(batch_norm.weight, 0.7)
        nn.init.constant_(batch_norm.bias, 0.2)
    ours = (3 + 2 * torch.randn(2, 16, 5, 4)).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    y, z = normed_pool(norm, ours), max_pool2d(relu(plain(theirs)), 3, 2, 1)
    grad = torch.randn_like(z)
    y.backward(grad)
    z.backward(grad)
    pairs: list[tuple[Any, Any]] = [
        (y, z), (ours.grad, theirs.grad), (norm.weight.grad, plain.weight.grad), (norm.bias.grad, plain.bias.grad),
        (norm.running_mean, plain.running_mean), (norm.running_var, plain.running_var),
    ]  # fmt: skip
    for mine, other in pairs:
        assert torch.allclose(mine, other, atol=1e-5), (mine - other).abs().max()
    broken = ours.detach().clone()
    broken[0, 3, 1, 1] = torch.nan
    assert torch.equal(normed_pool(norm, broken).isnan(), max_pool2d(relu(plain(broken)), 3, 2, 1).isnan())


if __name__ == "__main__":
    os.environ["TRITON_INTERPRET"] = "1"
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        # The interpreter makes whole numbers of arrays with one element, which numpy no longer does.
        patch(tensor, scope)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    interpreter._patch_lang_tensor = patched
    splat = interpreter.InterpreterBuilder.create_splat

    def splatted(self: Any, shape: Any, value: Any) -> Any:
        # Triton 3.9 makes numbers of a truth value that is the same for all places, and then refuses them as a mask.
        made = splat(self, shape, value)
        made.data = made.data.astype(value.data.dtype) if value.data.dtype == bool else made.data
        return made

    interpreter.InterpreterBuilder.create_splat = splatted
    stem()
