"""A device that is not the CPU, for machines that have no other: tensors there may not meet tensors on the CPU.

Numbers lie on the CPU and are computed there, so values can be read and methods take their usual ways. Only the name of
the device is another, and each operation is refused whose tensors a GPU would refuse. torch has a device type "lazy"
that nothing uses and that autograd takes for one without streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE = torch.device("lazy", 0)
CPU = torch.device("cpu")
_INDEXED = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")
"""Here positions may lie on the CPU, as a GPU's indexing takes them from there."""
_MOVES = ("copy_", "_to_copy")
_JOINS = ("cat", "stack")
"""These refuse single numbers of another device too."""


class There(Tensor):
    """A tensor on the other device, around one that holds its numbers."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> There:
        made: There = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            device=DEVICE, requires_grad=False,
        )  # fmt: skip
        made.held = held
        return made

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.detach().cpu().__reduce_ex__(protocol)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _done(func, args, kwargs or {})


class _Mode(TorchDispatchMode):
    """Sees what makes tensors out of nothing, too."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _done(func, args, kwargs or {})


def _done(func: Any, args: Any, kwargs: Any) -> Any:
    given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    there = [x for x in given if isinstance(x, There)]
    name = func.overloadpacket.__name__
    _need_one_device(name, args, given)
    asked = kwargs.get("device")
    away = bool(there) if asked is None else asked.type == DEVICE.type
    if away and any(isinstance(x, torch.Generator) for x in tree_leaves((args, kwargs))):
        raise RuntimeError(f"Expected a generator of {DEVICE}, but {name} got one of the CPU.")
    if name == "copy_":
        away = isinstance(args[0], There)
    given_as = {id(x.held): x for x in there}
    if asked is not None:
        kwargs = {**kwargs, "device": CPU}
    out = func(*_held(args), **_held(kwargs))
    if not away or name in ("_local_scalar_dense", "equal", "is_nonzero"):
        return out
    return tree_map_only(Tensor, lambda x: given_as[id(x)] if id(x) in given_as else There(x), out)


def _held(values: Any) -> Any:
    return tree_map_only(There, lambda x: x.held, values)


def _need_one_device(name: str, args: Any, given: list[Tensor]) -> None:
    if name in _MOVES or not any(isinstance(x, There) for x in given):
        return
    if name in _INDEXED and isinstance(args[0], There):
        given = [args[0], *(x for x in args[2:] if isinstance(x, Tensor))]
    strangers = [x for x in given if not isinstance(x, There) and (x.ndim > 0 or name in _JOINS)]
    if strangers:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but {name} got {tuple(strangers[0].shape)} on the CPU."
        )


@contextmanager
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The device, which is only there inside of this."""
    autocast, tensor = torch.autocast, torch.tensor

    def autocast_there(device_type: str, *args: Any, **options: Any) -> Any:
        return autocast("cpu" if device_type == DEVICE.type else device_type, *args, **options)

    def tensor_there(data: Any, *, device: Any = None, **options: Any) -> Tensor:
        made = tensor(data, **options)  # it would look for the device's own memory, unseen by a mode
        return made if device is None else made.to(device)

    monkeypatch.setattr(torch, "autocast", autocast_there)
    monkeypatch.setattr(torch, "tensor", tensor_there)
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)  # whose tensors cannot be wrapped
    with _Mode():
        yield DEVICE
