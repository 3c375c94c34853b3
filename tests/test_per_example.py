"""Each sample's gradient norm, and the noise scale from them, against a loop over samples and against closed forms."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

from reproduce.estimator import NoiseScaleError, unbiased_moments
from reproduce.per_example import PerExampleNoiseScale, PerExampleNorms
from reproduce.probe import probe
from reproduce.sample_norms import squared_outer_sums

SAMPLES = 6


def conv_net() -> nn.Module:
    """Groups, strides, dilation and every kind of padding; GroupNorm over images."""
    return nn.Sequential(
        nn.Conv2d(4, 6, 3, stride=2, padding=1),
        nn.GroupNorm(3, 6),
        nn.ReLU(inplace=True),
        nn.Conv2d(6, 8, (3, 2), padding="same", dilation=(1, 2), groups=2),
        nn.ReLU(),
        nn.Conv2d(8, 4, 3, padding=(1, 0), padding_mode="circular", bias=False),
        nn.Flatten(),
        nn.Linear(4 * 6 * 4, 5),
    )


class SequenceModel(nn.Module):
    """Tokens and positions, attention, linear layers on both sides of the cost rule, layers called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(7, 8, padding_idx=0)
        self.positions = nn.Embedding(9, 8)
        self.norm = nn.LayerNorm(8)
        self.mixed = nn.Linear(8, 24, bias=False)  # 192 weights, 9 x 32 for pairs of positions: explicit gradients
        self.wide = nn.Linear(8, 512)  # 4,096 weights, 9 x 520: explicit too
        self.square = nn.Linear(512, 512)  # 262,144 weights, 9 x 1,024: pairs
        self.narrow = nn.Linear(512, 8)
        self.shared = nn.Linear(8, 8)
        self.both_axes = nn.LayerNorm((9, 8), bias=False)
        self.last = nn.RMSNorm(8)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]).expand_as(tokens))
        q, k, v = self.mixed(self.norm(x)).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.narrow(F.gelu(self.square(F.gelu(self.wide(self.norm(x))))))
        for _ in range(3):
            x = self.both_axes(torch.tanh(self.shared(input=x)) + x)
        return self.last(x)[..., :5]


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    inputs, labels = batch
    return F.cross_entropy(model(inputs).flatten(0, -2), labels.flatten())


def images() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(SAMPLES, 4, 12, 12, generator=generator), torch.randint(5, (SAMPLES,), generator=generator)


def sequences() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return tuple(torch.randint(n, (SAMPLES, 9), generator=generator) for n in (7, 5))


def one_by_one(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """Squared norm of each sample's gradient, a backward pass a sample, in float64."""
    model = copy.deepcopy(model).double()
    parameters = [p for p in model.parameters() if p.requires_grad]
    batch = tuple(t.double() if t.is_floating_point() else t for t in batch)
    norms = []
    for i in range(len(batch[0])):
        gradients = torch.autograd.grad(loss(model, tuple(t[i : i + 1] for t in batch)), parameters, allow_unused=True)
        norms.append(sum(g.square().sum() for g in gradients if g is not None))
    return torch.stack(norms)


def whole(model: nn.Module) -> float:
    return float(sum(p.grad.double().square().sum() for p in model.parameters() if p.grad is not None))


def seeded(build, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    model = build()
    for parameter in model.parameters():  # away from the ones and zeros that layers begin with
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


CASES = [(conv_net, images), (SequenceModel, sequences)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("build", "data"), CASES)
def test_norms_are_those_of_a_loop_over_samples(build, data, dtype):
    model = seeded(build).to(dtype)
    batch = tuple(t.to(dtype) if t.is_floating_point() else t for t in data())
    norms = PerExampleNorms(model)
    loss(model, batch).backward()
    squares, squared_mean = norms.pop()
    torch.testing.assert_close(squares.double(), one_by_one(model, batch), rtol=1e-5, atol=0)
    assert float(squared_mean) == pytest.approx(whole(model), rel=1e-5)


@pytest.mark.parametrize(("build", "data"), CASES)
def test_every_layer_has_the_norm_of_its_own_gradients(build, data):
    """All layers but one frozen, in turn: an error in a small layer would drown in the sum over all."""
    batch = data()
    for kept, _ in seeded(build).named_parameters():
        model = seeded(build)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name == kept)
        norms = PerExampleNorms(model)
        loss(model, batch).backward()
        torch.testing.assert_close(norms.pop()[0].double(), one_by_one(model, batch), rtol=1e-5, atol=1e-12, msg=kept)


@pytest.mark.parametrize("positions", [1, 3, 40])
@pytest.mark.parametrize("chunk", [1, 200, 1 << 24])
def test_both_ways_to_square_a_sum_agree_in_any_chunks(positions, chunk, monkeypatch):
    monkeypatch.setattr("reproduce.sample_norms.CHUNK_ELEMENTS", chunk)
    generator = torch.Generator().manual_seed(3)
    left = torch.randn(5, 2, positions, 8, generator=generator, dtype=torch.float64)
    right = torch.randn(5, 2, positions, 12, generator=generator, dtype=torch.float64)
    exact = torch.einsum("ngtq,ngtp->ngqp", left, right).square().sum((1, 2, 3))
    torch.testing.assert_close(squared_outer_sums(left, right), exact)


@pytest.mark.parametrize(("positions", "multiplications"), [(1, 8 + 12), (4, 16 * (8 + 12)), (5, 5 * 8 * 12)])
def test_the_way_with_fewer_multiplications_is_taken(positions, multiplications):
    with FlopCounterMode(display=False) as counter:
        squared_outer_sums(torch.ones(3, 2, positions, 8), torch.ones(3, 2, positions, 12))
    assert counter.get_total_flops() == 2 * 3 * 2 * multiplications  # a product and a sum each


def test_moments_of_one_batch_and_the_scale_of_its_loss():
    model, batch = seeded(conv_net), images()
    plain = PerExampleNoiseScale(model, units_per_sample=3)
    loss(model, batch).backward()
    plain.update(samples=SAMPLES)
    squared_mean = whole(model)
    (1024 * loss(model, batch)).backward()  # adds to the same .grad, as gradient accumulation does
    plain.update(loss_scale=1024)
    expected = unbiased_moments(float(one_by_one(model, batch).mean()), squared_mean, 3, 3 * SAMPLES)
    for entry in plain.pending:
        moments = unbiased_moments(float(entry[0]), float(entry[1]), 3, 3 * SAMPLES)
        assert moments == pytest.approx(expected, rel=1e-4)
    estimate = plain.estimate()
    assert (estimate.grad_sq, estimate.trace) == pytest.approx(expected, rel=1e-4)
    assert estimate.updates == 2


def test_passes_that_are_not_added_up_are_not_counted():
    """Evaluation, torch.autograd.grad, a copy of the model: as if they had not been."""
    model, batch = seeded(SequenceModel), sequences()
    norms = PerExampleNorms(model)
    other = copy.deepcopy(model)
    loss(other, batch).backward()
    torch.autograd.grad(loss(model, batch), list(model.parameters()))
    with torch.no_grad():
        loss(model, batch)
    loss(model, batch).backward()
    torch.testing.assert_close(norms.pop()[0].double(), one_by_one(model, batch), rtol=1e-5, atol=0)
    with pytest.raises(NoiseScaleError, match="after each backward"):
        norms.pop()
    norms.remove()
    loss(model, batch).backward()
    assert not norms.measured


def test_autocast_keeps_norms_to_its_own_rounding():
    model, batch = seeded(SequenceModel), sequences()
    norms = PerExampleNorms(model)
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(model, batch)
    value.backward()
    torch.testing.assert_close(norms.pop()[0].double(), one_by_one(model, batch), rtol=0.05, atol=0)


class Regression:
    """Linear regression of x ~ N(0, I), y = w'x + s z, at distance d from w: every moment of a gradient is known.

    g = (d'x + s z) x has the mean d and E|g|^2 = (n + 2) |d|^2 + n s^2 in n dimensions.
    """

    dimensions, distance, s = 20, 0.5, 1.0
    grad_sq = distance**2
    trace = (dimensions + 1) * distance**2 + dimensions * s**2

    def __init__(self) -> None:
        self.model = nn.Linear(self.dimensions, 1, bias=False)
        nn.init.constant_(self.model.weight, self.distance / self.dimensions**0.5)  # w = 0

    def draw(self, samples: int) -> tuple[Tensor, Tensor]:
        return torch.randn(samples, self.dimensions), self.s * torch.randn(samples, 1)

    @staticmethod
    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return (model(batch[0]) - batch[1]).square().mean() / 2


def test_regression_has_its_known_noise_scale_and_the_probes():
    torch.manual_seed(4)
    problem = Regression()
    noise_scale = PerExampleNoiseScale(problem.model)
    probed = []
    for _ in range(300):
        batch = problem.draw(256)
        problem.loss(problem.model, batch).backward()
        noise_scale.update()
        norms, _ = probe(problem.model, problem.loss, batch, groups=8)
        probed.append(unbiased_moments(norms.sq_small, norms.sq_big, norms.n_small, norms.n_big))
    estimate = noise_scale.estimate()
    exact = problem.trace / problem.grad_sq  # 101
    grad_sq, trace = torch.tensor(probed).mean(0).tolist()
    assert estimate.value == pytest.approx(exact, rel=0.05)
    assert estimate.low < exact < estimate.high
    assert estimate.trace == pytest.approx(problem.trace, rel=0.01)
    assert estimate.value == pytest.approx(trace / grad_sq, rel=0.03)


def test_spread_is_far_below_that_of_micro_batches_of_the_same_batch():
    """The trace of one step of 256 samples: from two halves it varies as chi^2 of 20 degrees of freedom does, by a
    third; from the samples by sqrt(2.3 / 256), 2.3 the relative variance of (s z)^2 |x|^2.
    """
    torch.manual_seed(5)
    problem = Regression()
    each = PerExampleNorms(problem.model)
    traces = []
    for _ in range(300):
        batch = problem.draw(256)
        problem.loss(problem.model, batch).backward()
        squares, squared_mean = each.pop()
        halves, _ = probe(problem.model, problem.loss, batch, groups=2)
        from_samples = unbiased_moments(float(squares.mean()), float(squared_mean), 1, 256)
        from_halves = unbiased_moments(halves.sq_small, halves.sq_big, 128, 256)
        assert halves.sq_big == pytest.approx(float(squared_mean), rel=1e-4)
        traces.append([from_samples[1], from_halves[1]])
    mean, spread = torch.tensor(traces).mean(0), torch.tensor(traces).std(0) / problem.trace
    assert mean.tolist() == pytest.approx([problem.trace] * 2, rel=0.05)
    assert spread.tolist() == pytest.approx([0.095, 0.34], rel=0.2)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(3, 3), nn.Parameter(torch.ones(3))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), r"1 \(BatchNorm1d\)"),
        (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, affine=False)), r"1 \(BatchNorm1d\)"),
        (nn.ModuleDict({"memory": nn.LSTM(3, 3)}), r"memory \(LSTM\) has parameters \(weight_ih_l0"),
        (nn.ModuleDict({"attention": nn.MultiheadAttention(4, 2)}), r"attention \(MultiheadAttention\)"),
        (nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), r"\(ParametrizedLinear\)"),
        (Own(), r"the model itself \(Own\) has parameters \(scale\)"),
        (Tied(), "head .* shares its weight with embedding"),
        (nn.Sequential(nn.Embedding(5, 3, sparse=True)), "sparse"),
    ],
)
def test_what_cannot_be_told_apart_is_refused_by_name(model, told):
    with pytest.raises(NoiseScaleError, match=told) as error:
        PerExampleNoiseScale(model)
    assert "micro_batches=True" in str(error.value)


def test_frozen_layers_of_any_kind_are_left_out():
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(5, 4), nn.PReLU(4), nn.Linear(4, 3))
    for parameter in model[:2].parameters():
        parameter.requires_grad_(False)
    norms = PerExampleNorms(model)
    batch = torch.randn(SAMPLES, 5), torch.arange(SAMPLES) % 3
    loss(model, batch).backward()
    torch.testing.assert_close(norms.pop()[0].double(), one_by_one(model, batch), rtol=1e-5, atol=0)


def test_weights_used_outside_their_layer_are_refused():
    torch.manual_seed(7)
    model = nn.ModuleDict({"embedding": nn.Embedding(5, 3), "layer": nn.Linear(3, 3)})
    PerExampleNorms(model)
    hidden = model["embedding"](torch.arange(4))
    with pytest.raises(NoiseScaleError, match=r"embedding .*outside its own calls"):
        (hidden @ model["embedding"].weight.T).square().mean().backward()
    model = nn.ModuleDict({"layer": nn.Linear(3, 3)})
    norms = PerExampleNorms(model)
    F.linear(torch.ones(4, 3), model["layer"].weight).square().mean().backward()
    with pytest.raises(NoiseScaleError, match="layer had a gradient beside its own calls"):
        norms.pop()


def test_wrong_calls_say_what_to_do():
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(3, 3), nn.Flatten(0, 1), nn.Linear(3, 2))
    noise_scale = PerExampleNoiseScale(model)
    model(torch.randn(4, 5, 3)).mean().backward()
    with pytest.raises(NoiseScaleError, match="20 long in 2 and 4 in 0"):
        noise_scale.update()
    model = nn.Sequential(nn.Linear(3, 3))
    noise_scale = PerExampleNoiseScale(model)
    model(torch.randn(4, 3)).mean().backward()
    with pytest.raises(NoiseScaleError, match=r"samples=5\), but .* 4 long"):
        noise_scale.update(samples=5)
    model(torch.randn(4, 3)).mean().backward()
    with pytest.raises(NoiseScaleError, match="second backward pass"):
        model(torch.randn(4, 3)).mean().backward()
    with pytest.raises(NoiseScaleError, match="no samples"):
        model(torch.randn(3))
    assert str(noise_scale.estimate()) == "not measured"
    noise_scale.norms.reset()
    model(torch.randn(1, 3)).mean().backward()
    noise_scale.update()
    with pytest.raises(NoiseScaleError, match="a small and a big one"):
        noise_scale.estimate()


def test_a_model_in_ddp_is_sent_to_the_hook_that_costs_less():
    model = nn.Linear(3, 3)
    wrapped = DistributedDataParallel.__new__(DistributedDataParallel)
    nn.Module.__init__(wrapped)
    wrapped.module = model
    with pytest.raises(NoiseScaleError, match=r"NoiseScale\(ddp_model\)"):
        PerExampleNoiseScale(wrapped)
