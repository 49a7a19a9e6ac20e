"""The GPU's kernels on a CPU, by triton's interpreter, on a few numbers. Run as a program: the interpreter is chosen
when the kernels are imported."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np


def pictures() -> None:
    import torch

    from earsight.data.parcel import Given, Pictures
    from earsight.data.pictures import cut_and_resized, cut_pictures, places_of
    from earsight.data.view import View

    random = np.random.default_rng(0)
    sizes = [(9, 40), (6, 7), (30, 5)]
    frames = [random.integers(0, 256, (3, *size), dtype=np.uint8) for size in sizes]
    given = [torch.from_numpy(frame) for frame in frames]
    given[0] = torch.from_numpy(np.ascontiguousarray(frames[0].transpose(1, 2, 0))).permute(2, 0, 1)
    for side, views in (
        (4, [(8, 36, 20, 2, 1), (4, 4, 0, 0, 0), (35, 6, 1, 20, 0)]),
        (19, [(20, 89, 50, 1, 1), (19, 19, 0, 0, 0), (140, 23, 4, 100, 0)]),  # more rows than are made at a time
    ):
        part = Pictures.of(
            [
                Given.decoded("", frame, View(height, width, left, top, side, bool(flip)))
                for frame, (height, width, left, top, flip) in zip(frames, views, strict=True)
            ]
        )
        for places in (places_of(given), part.places(part.data.data_ptr())):
            got = cut_pictures(places, torch.tensor(sizes), torch.tensor(views), side, torch.device("cpu"))
            for one, frame, view in zip(got, frames, views, strict=True):
                wanted = cut_and_resized(frame, *view[:4], side, bool(view[4]))
                assert int((one.int() - wanted.int()).abs().max()) <= 2, view
        assert side > 4 or len(part.data) < sum(frame.size for frame in frames)


def resident() -> None:
    """Pictures that lie one after another in memory, cut by the kernel and one by one."""
    import torch

    from earsight.config import Inputs
    from earsight.data.clips import ClipSet
    from earsight.data.jpeg import encode_jpeg
    from earsight.data.pictures import cut_pictures
    from earsight.data.resident import Resident
    from earsight.data.view import View
    from earsight.types import Encoded, Row

    class Three(ClipSet):
        is_encoded = True

        def encoded(self, index: int, rate: int, seconds: float, draw: int = 0) -> Encoded:
            height, width = ((9, 40), (6, 7), (30, 5))[index]
            picture = np.random.default_rng(index).integers(0, 256, (3, height, width), dtype=np.uint8)
            data = np.frombuffer(encode_jpeg(picture, 95), np.uint8)
            return Encoded(str(index), data, height, width, np.zeros(64, np.int16), rate, 0.0)

        def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Any:
            raise NotImplementedError

    clips = Three("three:train", [Row(str(i)) for i in range(3)])
    kept = Resident(clips, Inputs(rate=8000, seconds=0.008, window=16, hop=8), 0.0, torch.device("cpu"))
    at, views = [2, 0, 1, 0], [View(35, 6, 1, 20, 4, False), View(8, 36, 20, 2, 4, True), View.whole(4), View.whole(4)]
    wanted = kept.seen(at, views)
    sizes, numbers = torch.tensor([kept.sizes[i] for i in at]), torch.tensor([view.numbers for view in views])
    got = cut_pictures(kept._places[torch.tensor(at)], sizes, numbers, 4, torch.device("cpu"))
    assert int((got.int() - wanted.int()).abs().max()) <= 2


def stem() -> None:
    import torch
    from torch import nn
    from torch.nn.functional import max_pool2d, relu

    from earsight.models import stem_ops
    from earsight.models.stem import normed_pool

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
    {"pictures": pictures, "resident": resident, "stem": stem}[sys.argv[1]]()
