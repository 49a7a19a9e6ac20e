"""A method's `localize` taken apart into what is seen, what is heard, and what compares them, for any method.

The three parts are found in the graph of the computation and not in the method: what depends on the picture alone, on
the sound alone, and on both. Put together again with a choice in between, each picture and each sound is encoded once,
however many pairs they are part of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import Dim, export

from earsight.errors import UsageError
from earsight.methods.base import Method
from earsight.types import Maps


def _loudest(x: Tensor, size: list[int]) -> tuple[Tensor, Tensor]:
    """A pooling to one place, of which ONNX has no translation: the largest value, and its place, which nobody asks."""
    if tuple(size) != (1, 1):
        raise NotImplementedError(f"adaptive max pooling to {size}")
    return x.amax((2, 3), keepdim=True), x.new_zeros((), dtype=torch.int64)


_PLAIN: dict[Any, Any] = {torch.ops.aten.adaptive_max_pool2d.default: _loudest}
_SIZE = torch.ops.aten.sym_size.int
SEEN, HEARD = "frames", "waveforms"


def answers(maps: Maps) -> dict[str, Tensor]:
    """A method's answers by name: dense, native where it is another map, and confidence where there is one."""
    found = {"dense": maps.dense, "native": maps.native, "confidence": maps.confidence}
    return {name: x for name, x in found.items() if x is not None and (name != "native" or x is not maps.dense)}


class Answers(nn.Module):
    """A method as a function from tensors to tensors, which is what can be traced."""

    def __init__(self, model: Method) -> None:
        super().__init__()
        self.model = model

    def forward(self, frames: Tensor, waveforms: Tensor) -> tuple[Tensor, ...]:
        return tuple(answers(self.model.localize(frames, waveforms)).values())


class Pairs(nn.Module):
    """Answers for pairs (B,) of P pictures and S sounds, each of which is encoded once."""

    def __init__(self, see: fx.GraphModule, hear: fx.GraphModule, compare: fx.GraphModule) -> None:
        super().__init__()
        self.see, self.hear, self.compare = see, hear, compare

    def forward(
        self, frames: Tensor, waveforms: Tensor, picture: Tensor, sound: Tensor, known: Sequence[Tensor] = ()
    ) -> tuple[Tensor, ...]:
        """Answers for uint8 (P, 3, S, S), float32 (S, N), and which of them each pair has, int64 (B,) and (B,).

        `known`, where it is given, is what was made of K more pictures before; pairs count them behind the P. After the
        answers then comes what was made of the P.
        """
        made: tuple[Tensor, ...] = self.see(frames)
        all_ = [torch.cat(both) for both in zip(made, known, strict=True)] if known else made
        seen = [x.index_select(0, picture) for x in all_]
        heard = [x.index_select(0, sound) for x in self.hear(waveforms)]
        found: tuple[Tensor, ...] = self.compare(picture, *seen, *heard)
        return (*found, *made) if known else found


def take_apart(model: Method, frames: Tensor, waveforms: Tensor) -> Pairs:
    """The method as pairs of pictures and sounds; `frames` and `waveforms` are an example of at least two of each."""
    batch = Dim("batch")
    try:
        with torch.no_grad():
            program = export(Answers(model), (frames, waveforms), dynamic_shapes=({0: batch}, {0: batch}))
            whole = program.run_decompositions(_PLAIN).module(check_guards=False)
    except Exception as error:  # torch raises many kinds, of which none says more than its words
        raise cannot(type(model).__module__.removeprefix("earsight.methods."), error) from error
    return _Cut(whole).pairs()


def cannot(method: str, error: Exception) -> UsageError:
    """What to tell when a method cannot be exported."""
    reason = " ".join(str(error).split())[:300]
    return UsageError(
        f"Expected a method whose localize can be written as one ONNX graph, but got {method}: {reason} "
        "Use the weights themselves; in a method of your own, use tensor operations alone, and x.shape[0] for len(x)."
    )


class _Cut:
    """Which node of a graph belongs where."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        nodes = list(whole.graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        frames, waveforms = self.inputs
        self.batch = frames.meta["val"].shape[0]
        (out,) = (node for node in nodes if node.op == "output")
        self.answers: list[fx.Node] = [node for node in out.args[0] if isinstance(node, fx.Node)]
        self.needs: dict[fx.Node, frozenset[str]] = {frames: frozenset({SEEN}), waveforms: frozenset({HEARD})}
        for node in nodes:
            if node not in self.needs:
                # Sizes are no data: each part knows its own.
                given = () if _is_size(node) else node.all_input_nodes
                self.needs[node] = frozenset().union(*(self.needs[one] for one in given))

    def pairs(self) -> Pairs:
        frames, waveforms = self.inputs
        seen, heard = self._border(SEEN), self._border(HEARD)
        see, hear = self._part([frames], seen), self._part([waveforms], heard)
        return Pairs(see, hear, self._part([None, *seen, *heard], self.answers))

    def _border(self, side: str) -> list[fx.Node]:
        """What depends on one side alone and is used together with the other, or is an answer."""
        border: list[fx.Node] = []
        queue, visited = list(self.answers), set[fx.Node]()
        while queue:
            node = queue.pop()
            if node in visited or _is_size(node):
                continue
            visited.add(node)
            if self.needs[node] == {side} and self._has_clips(node):
                border.append(node)
            elif side in self.needs[node]:
                queue += node.all_input_nodes
        return sorted(border)

    def _has_clips(self, node: fx.Node) -> bool:
        """Whether a tensor's first dimension counts clips, so that some of them can be chosen."""
        value = node.meta["val"]
        return isinstance(value, Tensor) and value.ndim > 0 and str(value.shape[0]) == str(self.batch)

    def _part(self, given: Sequence[fx.Node | None], wanted: Sequence[fx.Node]) -> fx.GraphModule:
        """The graph from some nodes to others; a None among them is a tensor that is only counted."""
        graph = fx.Graph()
        places = [graph.placeholder(f"given{i}") for i in range(len(given))]
        made = {node: place for node, place in zip(given, places, strict=True) if node is not None}
        needed, queue = set(made), list(wanted)
        while queue:
            node = queue.pop()
            if node not in needed:
                needed.add(node)
                queue += () if node.target is _SIZE else node.all_input_nodes
        for node in self.whole.graph.nodes:  # in order, so that what a node is made of is there before it
            if node in needed and node not in made:
                if node.target is _SIZE:  # only clips have a size that is not fixed
                    made[node] = graph.call_function(_SIZE, (places[0], 0))
                else:
                    made[node] = graph.node_copy(node, lambda one: made[one])
        graph.output(tuple(made[node] for node in wanted))
        return fx.GraphModule(self.whole, graph)


def _is_size(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), int | torch.SymInt)
