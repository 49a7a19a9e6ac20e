"""SLAVC against values computed by hand, and its settings against what the paper and the published code say."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from earsight.config import Inputs
from earsight.encoders.base import Encoders
from earsight.errors import UsageError
from earsight.losses import log_joint, match, pool
from earsight.methods.slavc import Config, Model, official, paper
from earsight.predict import predict
from earsight.protocols import get
from earsight.types import Batch, Maps, Row
from tiny import take_step

INPUTS = Inputs(image_size=32, resize=36, rate=8000, seconds=1.0, window=128, hop=64)
SMALL = Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8, visual_dropout=0.0, momentum=0.9)


def make_batch(clips: int = 4, seed: int = 0) -> Batch:
    random = torch.Generator().manual_seed(seed)
    frames = torch.randint(0, 256, (clips, 3, 32, 32), generator=random, dtype=torch.uint8)
    waves = torch.rand(clips, INPUTS.samples, generator=random) - 0.5
    return Batch(frames, waves, torch.arange(clips), tuple(Row(f"clip{i}") for i in range(clips)))


def make_model(**changes: object) -> Model:
    torch.manual_seed(0)
    return Model(replace(SMALL, **changes), INPUTS)  # type: ignore[arg-type]


def toy_similarity() -> torch.Tensor:
    """Two clips, two places, temperature 1; only each picture's own sound has one place of similarity 1."""
    similarity = torch.zeros(2, 2, 1, 2)
    similarity[0, 0, 0] = torch.tensor([1.0, 0.0])
    similarity[1, 1, 0] = torch.tensor([0.0, 1.0])
    return similarity


def test_published_loss_equals_the_hand_computed_value() -> None:
    c = toy_similarity()
    pairs = pool(log_joint(c, c), "sum")
    torch.testing.assert_close(
        pairs.exp(), torch.tensor([[0.668917, 0.384471], [0.384471, 0.668917]]), atol=1e-6, rtol=0
    )
    assert match(pairs, "audios").item() == pytest.approx(0.454106, abs=1e-6)
    assert 2 * match(pairs, "audios").item() == pytest.approx(0.908213, abs=1e-5)


def test_paper_loss_equals_the_hand_computed_value() -> None:
    c = toy_similarity()
    pairs = pool(log_joint(c, c), "max")
    assert pairs.exp()[0, 0].item() == pytest.approx(0.534447, abs=1e-6)
    assert pairs.exp()[0, 1].item() == pytest.approx(0.25, abs=1e-6)
    total = match(pairs, "images") + match(pairs, "audios")
    assert total.item() == pytest.approx(0.767494, abs=1e-5)


def test_loss_equals_a_slow_loop_over_pairs() -> None:
    """Independent version with plain probabilities, for both forms, on random features."""
    torch.manual_seed(1)
    loc, avc = torch.randn(3, 3, 2, 2).double(), torch.randn(3, 3, 2, 2).double()
    for how in ("sum", "max"):
        slow = torch.zeros(3, 3).double()
        for n in range(3):
            for m in range(3):
                p_loc = loc[n, m].exp() / loc[n, m].exp().sum()
                p_avc = avc[n, m].exp() / avc[n].exp().sum(0)
                joint = p_loc * p_avc
                slow[n, m] = joint.sum() if how == "sum" else joint.max()
        fast = pool(log_joint(loc, avc), how)  # type: ignore[arg-type]
        torch.testing.assert_close(fast.exp(), slow)
        over_audios = -torch.stack([(slow[i, i] / slow[i].sum()).log() for i in range(3)]).mean()
        over_images = -torch.stack([(slow[i, i] / slow[:, i].sum()).log() for i in range(3)]).mean()
        torch.testing.assert_close(match(fast, "audios"), over_audios)
        torch.testing.assert_close(match(fast, "images"), over_images)


def test_loss_stays_finite_where_products_of_probabilities_underflow() -> None:
    similarity = torch.full((4, 4, 7, 7), -1.0)
    similarity[:, :, 0, 0] = 1.0
    pairs = pool(log_joint(similarity / 0.003, -similarity / 0.003), "sum")
    assert torch.isfinite(pairs).all()


def test_momentum_copy_moves_as_computed_by_hand() -> None:
    model = make_model(momentum=0.9)
    with torch.no_grad():
        for p in model.target.parameters():
            p.zero_()
        for p in model.online.parameters():
            p.fill_(1.0)
    model.after_step()
    model.after_step()
    for p in model.target.parameters():
        torch.testing.assert_close(p, torch.full_like(p, 0.19))


def test_target_keeps_its_own_batch_statistics() -> None:
    """Batch norm of a copy in training mode, without gradients: mean .2 and variance 1.1 after seeing {1, 3}."""
    model = make_model()
    norm = next(m for m in model.target.modules() if isinstance(m, nn.BatchNorm2d))
    with torch.no_grad():
        norm(torch.tensor([1.0, 3.0]).view(2, 1, 1, 1).expand(2, norm.num_features, 1, 1))
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    assert norm.running_mean[0].item() == pytest.approx(0.2)
    assert norm.running_var[0].item() == pytest.approx(1.1)
    assert norm.num_batches_tracked.item() == 1
    model.after_step()
    assert norm.running_mean[0].item() == pytest.approx(0.2)


def test_gradients_reach_the_online_branch_only() -> None:
    model = make_model(visual_dropout=0.5)
    step = take_step(model, make_batch())
    step.loss.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.online.parameters())
    assert all(p.grad is None and not p.requires_grad for p in model.target.parameters())


def test_paper_scope_has_no_slow_projections() -> None:
    model = make_model(target_heads=False)
    assert {name.split(".")[0] for name, _ in model.target.named_parameters()} == {"image", "audio"}
    take_step(model, make_batch()).loss.backward()
    assert all(p.grad is not None for p in model.online.parameters())


@pytest.mark.parametrize("infer", ["both", "loc", "avc"])
@pytest.mark.parametrize("infer_with", ["online", "target"])
def test_maps_do_not_depend_on_the_rest_of_the_batch(infer: str, infer_with: str) -> None:
    model = make_model(infer=infer, infer_with=infer_with).eval()
    batch = make_batch(5)
    with torch.no_grad():
        together = model.localize(batch.frames, batch.waveforms).dense
        alone = torch.cat([model.localize(batch.frames[i : i + 1], batch.waveforms[i : i + 1]).dense for i in range(5)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)
    assert together.shape == (5, 2, 2)
    assert together.abs().max() <= 1 + 1e-5


def test_the_map_of_both_is_the_mean_of_loc_and_avc() -> None:
    batch = make_batch()
    maps = {}
    for infer in ("both", "loc", "avc"):
        model = make_model(infer=infer).eval()
        with torch.no_grad():
            maps[infer] = model.localize(batch.frames, batch.waveforms).dense
    torch.testing.assert_close(maps["both"], (maps["loc"] + maps["avc"]) / 2)


def test_scores_are_half_plus_a_quarter_of_both_cosines_and_bicubic_upsampling_overshoots() -> None:
    """Published: ((cos1 + cos2) / tau + 2 / tau) / (4 / tau), so the temperature cancels."""
    model = make_model().eval()
    one = torch.tensor([0.6, 0.8]).view(1, 2, 1, 1)
    image = {"loc": one, "avc": one}
    audio = {"loc": torch.tensor([[1.0, 0.0]]), "avc": torch.tensor([[0.0, 1.0]])}
    tau = model.config.temperature
    score = predict(model.compare(image, audio), get("official"), (1, 1)).score.item()
    assert score == pytest.approx(0.5 + (0.6 + 0.8) / 4)
    assert score == pytest.approx(((0.6 + 0.8) / (2 * tau) + 1 / tau) / (2 / tau))
    spike = torch.zeros(1, 7, 7)
    spike[0, 3, 3] = 1
    # The kernel with a = -3/4 is lowest 4/3 of a cell away: -3/4 * 4/27.
    assert predict(Maps(spike, spike, (0.0, 1.0)), get("official")).score.min().item() == pytest.approx(
        -1 / 9, abs=1e-3
    )


def test_evaluating_never_moves_the_copies() -> None:
    model = make_model().eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    batch = make_batch()
    with torch.no_grad():
        model.localize(batch.frames, batch.waveforms)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_permuting_the_batch_does_not_change_the_loss() -> None:
    model = make_model()
    batch = make_batch(6)
    order = torch.tensor([3, 1, 5, 0, 4, 2])
    shuffled = Batch(batch.frames[order], batch.waveforms[order], order, tuple(batch.rows[i] for i in order))
    torch.testing.assert_close(take_step(model, batch).loss, take_step(model, shuffled).loss, rtol=1e-4, atol=1e-5)


def test_dropout_acts_in_training_only_and_keeps_the_mean() -> None:
    model = make_model(visual_dropout=0.9)
    batch = make_batch()
    encoded = model.encode(batch, [model.online])[model.online]
    model.eval()
    with torch.no_grad():
        one, two = (model.features(encoded, model.online, [4])[0]["loc"] for _ in range(2))
        assert torch.equal(one, two)
        model.train()
        one, two = (model.features(encoded, model.online, [4])[0]["loc"] for _ in range(2))
        assert not torch.equal(one, two)


def test_without_decomposition_the_loss_is_multiple_instance_matching() -> None:
    """With one projection, no copies and the paper's terms this is EZ-VSL's loss."""
    model = make_model(decompose=False, targets=False, pooling="max", audio_term="images", infer="loc")
    batch = make_batch()
    image, audio = model.embed_images(batch.frames), model.embed_sounds(batch.waveforms)
    v = nn.functional.normalize(image["loc"].flatten(2), dim=1)
    a = nn.functional.normalize(audio["loc"], dim=1)
    logits = torch.einsum("ncx,mc->nmx", v, a).amax(2) / 0.03
    target = torch.arange(4)
    slow = nn.functional.cross_entropy(logits, target) + nn.functional.cross_entropy(logits.T, target)
    torch.testing.assert_close(take_step(model, batch).loss, slow, rtol=1e-3, atol=1e-4)


def test_presets_differ_exactly_where_the_sources_do() -> None:
    code, text = official(), paper()
    assert (code.config.pooling, text.config.pooling) == ("sum", "max")
    assert (code.config.audio_term, text.config.audio_term) == ("audios", "images")
    assert (code.config.target_heads, text.config.target_heads) == (True, False)
    assert (code.config.infer_with, text.config.infer_with) == ("online", "target")
    assert (code.optim.weight_decay, text.optim.weight_decay) == (0.0, 1e-4)
    assert (code.inputs.resize, text.inputs.resize) == (246, 256)
    assert (code.inputs.frames, text.inputs.frames) == (276, 300)
    assert (code.protocol, text.protocol) == ("official", "paper")
    same = replace(text.config, pooling="sum", audio_term="audios", target_heads=True, infer_with="online")
    assert same == code.config
    assert replace(text.optim, weight_decay=0.0) == code.optim
    assert replace(text.inputs, resize=246, hop=238) == code.inputs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 0.0}, "Expected a positive temperature, but got 0.0"),
        ({"visual_dropout": 1.0}, r"Expected visual_dropout in \[0, 1\), but got 1.0"),
        ({"momentum": 1.5}, r"Expected momentum in \[0, 1\], but got 1.5"),
        ({"decompose": False, "infer": "avc"}, "Expected infer 'both' or 'loc' without decomposition"),
    ],
)
def test_bad_settings_are_refused_with_what_was_expected(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **changes)  # type: ignore[arg-type]
