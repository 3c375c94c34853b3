"""The gradient noise scale on one device, from each sample's own gradient, in the ordinary backward pass.

    noise_scale = PerExampleNoiseScale(model)
    ...
        loss.backward()  # a mean over samples
        noise_scale.update()
    ...
    print(noise_scale.estimate())

The mean of the samples' squared gradient norms is held against the squared norm of the batch's gradient: the small
batch has one sample, so |G|^2 and tr Sigma (App. A.1 of arXiv 1812.06162) come out as exactly as the batch can tell
them. Micro-batches know the same two moments from fewer, larger parts.

What it asks of the model: layers out of `sample_norms.RULES`, samples along the first axis of each layer's input, and a
loss that is a plain mean over samples. A position embedding that is called without the samples' axis, as
embedding(arange(length)), has to be given it: embedding(arange(length).expand(samples, -1)).
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from reproduce.estimator import NoiseScaleError
from reproduce.noise_scale import RunningNoiseScale
from reproduce.norms import squared_norm
from reproduce.sample_norms import RULES

INSTEAD = "Use NoiseScale(model, micro_batches=True), or NoiseScale of the model in DistributedDataParallel."
# Relative difference between a layer's gradient and that of the calls seen: above bfloat16's rounding, 0.004, far below
# what a use of the weights that was not seen would add.
UNSEEN_TOLERANCE = 1e-2


def measurable_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The layers with parameters to train, by name.

    Raises:
        NoiseScaleError: where a sample's own gradient does not exist (BatchNorm), cannot be told here, or is sparse.
    """
    if isinstance(model, DistributedDataParallel):
        raise NoiseScaleError("PerExampleNoiseScale is for one device: use NoiseScale(ddp_model), which costs less.")
    layers, holders = {}, {}
    for name, layer in model.named_modules():
        called = f"{name or 'the model itself'} ({type(layer).__name__})"
        if isinstance(layer, _BatchNorm):
            raise NoiseScaleError(f"{called} makes each sample's gradient depend on the others. {INSTEAD}")
        trained = [key for key, p in layer.named_parameters(recurse=False) if p.requires_grad]
        if not trained:
            continue
        if type(layer) not in RULES or not {"weight", "bias"}.issuperset(trained):
            raise NoiseScaleError(f"{called} has parameters ({', '.join(trained)}) of no rule here. {INSTEAD}")
        if isinstance(layer, nn.Embedding) and (layer.sparse or layer.scale_grad_by_freq):
            raise NoiseScaleError(f"{called} is made with sparse or scale_grad_by_freq: leave it out. {INSTEAD}")
        for key in trained:
            other = holders.setdefault(getattr(layer, key), name)
            if other != name:
                raise NoiseScaleError(f"{called} shares its {key} with {other}, a sum not told apart here. {INSTEAD}")
        layers[name] = layer
    if not layers:
        raise NoiseScaleError("The model has no parameter to train.")
    return layers


class PerExampleNorms:
    """Squared norm of every sample's gradient, from hooks on layers; see the module for what the model must be.

    A layer is measured when autograd adds to its `.grad`, not when torch.autograd.grad passes through it.
    """

    def __init__(self, model: nn.Module) -> None:
        self.layers = measurable_layers(model)
        self.accounted: set[str] = set()
        self.reset()
        self.handles, self.nodes = [], []
        for name, layer in self.layers.items():
            self.handles.append(layer.register_forward_hook(self._forward_hook(name), with_kwargs=True))
            for key, parameter in layer.named_parameters(recurse=False):
                if parameter.requires_grad:
                    node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
                    self.nodes.append(node)  # a node lives only as long as somebody holds it
                    self.handles.append(node.register_prehook(partial(self._arrived, name, key)))

    def reset(self) -> None:
        # By (backward pass, layer): passes of torch.autograd.grad leave calls behind that nobody asks for.
        self.calls: dict[tuple[int, str], list[tuple[Tensor, Tensor]]] = defaultdict(list)
        self.gradients: dict[tuple[int, str], dict[str, Tensor]] = defaultdict(dict)
        self.measured: dict[str, tuple[Tensor, Tensor]] = {}  # (samples' squared norms of the mean's terms, whole)

    def _forward_hook(self, name: str) -> Callable:
        unbatched = {nn.Linear: 1, nn.Conv2d: 3, nn.Embedding: 0}.get(type(self.layers[name]))

        # A function, because copy.deepcopy takes it as it is: a copy of the model carries the hook, and is passed over.
        def called(layer: nn.Module, args: tuple, kwargs: dict, output: Tensor) -> None:
            if layer is not self.layers[name] or not output.requires_grad:
                return
            inputs = (args[0] if args else kwargs["input"]).detach()
            if inputs.dim() == unbatched:
                raise NoiseScaleError(f"{name} was called with an input of shape {tuple(inputs.shape)}: no samples.")
            output.register_hook(partial(self._output_gradient, name, inputs))

        return called

    def _output_gradient(self, name: str, inputs: Tensor, gradient: Tensor) -> None:
        self.calls[torch._C._current_graph_task_id(), name].append((inputs, gradient.detach()))

    def _arrived(self, name: str, key: str, gradients: tuple[Tensor | None, ...]) -> None:
        """A parameter's whole gradient; with the last of a layer, all its calls have been seen as well."""
        if gradients[0] is None:
            return
        at = torch._C._current_graph_task_id(), name
        self.gradients[at][key] = gradients[0].detach()
        layer = self.layers[name]
        if len(self.gradients[at]) == sum(p.requires_grad for p in layer.parameters(recurse=False)):
            self._measure(name, layer, self.calls.pop(at, []), self.gradients.pop(at))

    @torch.no_grad()
    def _measure(self, name: str, layer: nn.Module, calls: list, gradients: dict[str, Tensor]) -> None:
        if name in self.measured:
            raise NoiseScaleError(f"{name} had a second backward pass: call update() after each one.")
        with torch.autocast(gradients[next(iter(gradients))].device.type, enabled=False):
            if name not in self.accounted or not calls:
                refuse_unseen_uses(name, layer, calls, gradients)
                self.accounted.add(name)
            wide = [(_wide(x), _wide(g)) for x, g in calls]
            self.measured[name] = sum(RULES[type(layer)](layer, wide).values()), squared_norm(gradients.values())

    def pop(self) -> tuple[Tensor, Tensor]:
        """(Squared norms of the samples' gradients, shape (samples,), squared norm of their mean), last backward pass.

        Raises:
            NoiseScaleError: without a backward pass, or where layers differ in the length of their first axis.
        """
        left = {name for _, name in self.gradients}
        measured, _ = self.measured, self.reset()
        if left:
            raise NoiseScaleError(f"{min(left)} had a gradient beside its own calls. {INSTEAD}")
        if not measured:
            raise NoiseScaleError("No gradient was computed: call update() after each backward pass.")
        lengths = {name: len(squares) for name, (squares, _) in measured.items()}
        longest, shortest = max(lengths, key=lengths.get), min(lengths, key=lengths.get)
        samples = lengths[longest]
        if samples != lengths[shortest]:
            raise NoiseScaleError(
                f"The first axis must be the samples in every layer, but was {samples} long in {longest} and "
                f"{lengths[shortest]} in {shortest}. Give the input of each layer the axis, for example by expand()."
            )
        # The loss is a mean: of each sample's gradient, 1 / samples came in.
        squares = torch.stack([squares for squares, _ in measured.values()]).sum(0) * samples**2
        return squares, torch.stack([whole for _, whole in measured.values()]).sum()

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def _wide(tensor: Tensor) -> Tensor:
    """At least float32, in which squares do not overflow; whole numbers as they are."""
    if not tensor.is_floating_point():
        return tensor
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def refuse_unseen_uses(name: str, layer: nn.Module, calls: list, gradients: dict[str, Tensor]) -> None:
    """Runs a layer's calls again, once in its life: they must account for the gradients that came in."""
    parameters = [getattr(layer, key) for key in gradients]
    missing = [gradient.float() for gradient in gradients.values()]
    for inputs, gradient in calls:
        if inputs.is_floating_point():
            inputs = inputs.to(parameters[0].dtype)  # under autocast they may differ
        with torch.enable_grad():
            output = layer.forward(inputs)  # past the hooks, which __call__ would run
        terms = torch.autograd.grad(output, parameters, gradient.to(output.dtype))
        missing = [rest - term for rest, term in zip(missing, terms, strict=True)]
    # All parameters together: a bias before a normalisation has nothing but rounding for a gradient.
    if squared_norm(missing) > UNSEEN_TOLERANCE**2 * squared_norm(gradients.values()):
        raise NoiseScaleError(
            f"{name} has parameters that are used outside its own calls, as in F.linear(x, {name}.weight), or whose "
            f"gradient a hook changes: what a sample adds to it is not seen. {INSTEAD}"
        )


class PerExampleNoiseScale(RunningNoiseScale):
    """Measures B_simple on one device without extra passes; see the module for the calls to make.

    Args:
        model: all its layers with parameters to train must be in `sample_norms.RULES`; hooks are set on them.
        units_per_sample: units in one sample (tokens in a sequence); the result is in units.
        horizon: updates over which older ones fade by 1/e; None weighs all alike.
    Raises:
        NoiseScaleError: if the model has BatchNorm, or parameters of layers that are not supported.
    """

    def __init__(self, model: nn.Module, *, units_per_sample: float = 1, horizon: float | None = None) -> None:
        super().__init__(units_per_sample, horizon)
        self.norms = PerExampleNorms(model)
        self.pending: list[tuple[Tensor, Tensor, int]] = []

    def update(self, samples: int | None = None, *, loss_scale: float = 1.0) -> None:
        """Call after every backward pass.

        Args:
            samples: samples in it; told, the first axis of the layers' inputs is held against it.
            loss_scale: factor on the mean loss (mixed precision; 1 / micro-batches in gradient accumulation).
        Raises:
            NoiseScaleError: without a backward pass, or where the first axis is not that of the samples.
        """
        squares, whole = self.norms.pop()
        if samples is not None and samples != len(squares):
            raise NoiseScaleError(f"update(samples={samples}), but the layers' first axis was {len(squares)} long.")
        self.pending.append((squares.mean() / loss_scale**2, whole / loss_scale**2, len(squares)))

    def flush(self) -> None:
        pending, self.pending = self.pending, []
        if not pending:
            return
        small, whole = torch.stack([torch.stack(entry[:2]) for entry in pending]).double().T.tolist()
        for sq_small, sq_big, (_, _, samples) in zip(small, whole, pending, strict=True):
            unit = self.units_per_sample
            self.estimator.update(sq_small, sq_big, unit, samples * unit)
