"""Steps for tensors of a GPU, without one: on the driver's stand-ins, where a Library plays PyTorch's part (stand_ins.py).

Models are traced with tensors of the CPU, since PyTorch differentiates nothing on a GPU that is not there, and their graphs
moved to a GPU before they are converted.
"""

import copy

import models
import pytest
import stand_ins
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import tcc.torch
from tcc import _native
from tcc.torch import backend, convert, gpu_attention, layouts, train
from tcc.torch.decompositions import decompositions
from tcc.torch.lowering import Unsupported
from tcc.torch.recurrent import Unrolled

aten = torch.ops.aten


def moved(module: torch.fx.GraphModule, device) -> torch.fx.GraphModule:
    """The graph with tensors of another device; single numbers that are arguments stay on the CPU, as PyTorch allows."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    for node in module.graph.nodes:
        def there(leaf, node=node):
            stays = leaf.dim() == 0 and node.op == "placeholder" and not any(
                user.target is aten.copy_.default and user.args[0] is node for user in node.users)
            return leaf if stays else torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=device)
        with mode:
            if "val" in node.meta:
                node.meta["val"] = pytree.tree_map_only(torch.Tensor, there, node.meta["val"])
    return module


@pytest.fixture(scope="module")
def library():
    if reason := stand_ins.missing():
        pytest.skip(reason)
    stand_ins.set_environment("late")
    return stand_ins.Library()


@pytest.fixture
def gpu(library, monkeypatch):
    """Whatever is compiled is compiled for the GPU; its calls take and give tensors of the CPU, by copies."""
    monkeypatch.setattr(convert, "allocator", lambda device: library.allocate)
    monkeypatch.setattr(convert, "copier", lambda device: library.copied)

    def on_gpu(module, *more):
        made = convert.convert(moved(module, stand_ins.GPU), *more)
        assert made.device == stand_ins.GPU
        return made

    def call_of(converted, *more):
        call = original(converted, *more)

        def on_host(args):
            return [library.to_host(x) if isinstance(x, stand_ins.DeviceTensor) else x for x in call(args)]
        return convert.boxed(on_host)

    original = backend.call_of
    for module in (backend, train):
        monkeypatch.setattr(module, "convert", on_gpu)
        monkeypatch.setattr(module, "call_of", call_of)
    _native.open(library.capsule)
    yield library
    _native.open(torch.Tensor.__dlpack_c_exchange_api__)


class Tiny(torch.nn.Module):
    """What a transformer has: an embedding, attention, a norm, a loss; and a buffer that changes."""

    def __init__(self):
        super().__init__()
        self.embedding, self.mix = torch.nn.Embedding(11, 16), torch.nn.Linear(16, 48, bias=False)
        self.norm, self.head = torch.nn.LayerNorm(16), torch.nn.Linear(16, 11)
        self.register_buffer("turns", torch.zeros(3))

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        q, k, v = (t.view(*tokens.shape, 2, 8).transpose(1, 2) for t in self.mix(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        self.turns += 1
        logits = self.head(self.norm(x + y))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def test_steps_of_training_on_a_gpu(gpu):
    model = Tiny()
    other = copy.deepcopy(model)
    first, second = (torch.optim.AdamW(m.parameters(), 1e-2) for m in (model, other))
    step = tcc.torch.train_step(other, lambda m, *batch: m(*batch), second, clip=0.5, options={"fallback": "error"})
    for _ in range(4):
        batch = torch.randint(0, 11, (2, 3, 8)).unbind()
        wanted = model(*batch)
        wanted.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        first.step()
        first.zero_grad()
        assert torch.allclose(step(*batch), wanted, rtol=1e-5) and torch.allclose(step.norm, norm, rtol=1e-5)
    for (name, a), b in zip(model.state_dict().items(), other.state_dict().values()):
        assert torch.allclose(a, b, atol=2e-6), name
    assert [s.name for s in tcc.torch.report().steps] == ["train_step"] and not tcc.torch.report().refused


def test_forward_and_backward_on_a_gpu(gpu):
    model = Tiny()
    batch = torch.randint(0, 11, (2, 3, 8)).unbind()
    wanted = model(*batch)
    wanted.backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    seen = torch.compile(model, backend="tcc", options={"fallback": "error"})(*batch)
    seen.backward()
    assert torch.allclose(seen, wanted, rtol=1e-5)
    for name, p in model.named_parameters():
        assert torch.allclose(p.grad, grads[name], atol=1e-6), name


def test_a_step_is_no_part_of_a_capture(gpu, monkeypatch):
    function = torch.compile(lambda x: x * 2 + 1, backend="tcc", options={"fallback": "error"})
    x = torch.randn(8)
    assert torch.equal(function(x), x * 2 + 1)
    captures = True
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: captures)
    with pytest.raises(RuntimeError, match="cannot be part of torch.cuda.graph"):
        function(x)
    captures = False
    assert torch.equal(function(x), x * 2 + 1)


def graph_of(function, *tensors) -> torch.fx.GraphModule:
    return make_fx(function, decomposition_table=decompositions(), tracing_mode="fake")(*tensors)


def test_tensors_of_the_gpu_are_used_where_they_lie(gpu):
    """Inputs, results and states, in any dense order of dims; what the stream has before and gets after the step is in
    order with it, and memory that is given back meanwhile is taken again."""
    def function(x, y, total):
        total.add_(x.sum())
        return x.t() @ y, x * 2

    x, y, total = torch.randn(7, 5), torch.randn(6, 7).t(), torch.zeros(())
    module = moved(graph_of(torch.func.functionalize(function, remove="mutations"), x, y, total), stand_ins.GPU)
    converted = convert.convert(module, "f", lambda device: [])
    run, state = converted.call(), gpu.to_gpu(total)
    place, seen = state.address, []
    for _ in range(5):
        inputs = [gpu.to_gpu(x), gpu.to_gpu(y), state]
        assert inputs[1].strides == y.stride()
        made = run(inputs)
        del inputs
        spent = gpu.to_gpu(torch.full((7, 5), float("nan")))  # in the memory that x had
        seen.append((*map(gpu.to_host, made), spent))
    for product, twice, _ in seen:
        assert torch.allclose(product, x.t() @ y, atol=1e-6) and torch.equal(twice, x * 2)
    assert state.address == place and torch.allclose(gpu.to_host(state), 5 * x.sum(), rtol=1e-5)


def test_what_a_step_of_a_gpu_cannot_have(gpu):
    def refused(function, *tensors, there=lambda module: moved(module, stand_ins.GPU)):
        with pytest.raises(Unsupported) as why:
            convert.convert(there(graph_of(function, *tensors)), "f", lambda device: [])
        return str(why.value)

    x = torch.randn(3, 3)
    assert "aten.i0.default (no translation); a step on a GPU has no ops of ATen inside" in refused(torch.i0, x)
    assert "no float64 in compiled code" in refused(lambda x: x.double() * 2, x)

    def two(module):
        nodes = [node for node in moved(module, stand_ins.GPU).graph.nodes if "val" in node.meta]
        with FakeTensorMode():
            nodes[0].meta["val"] = torch.empty(3, 3, device="cuda:1")
        return module

    assert "tensors of several devices: cuda:0, cuda:1" in refused(lambda x: x * 2, x, there=two)

    def back(module):
        made = [node for node in moved(module, stand_ins.GPU).graph.nodes if "val" in node.meta][-1]
        with FakeTensorMode():
            made.meta["val"] = torch.empty(3, 3)
        return module

    assert "a result on the CPU of a step on cuda:0" in refused(lambda x: x * 2, x, there=back)
    with pytest.raises(tcc.torch.Error, match="CUDA device 7"):
        _native.compile("", "f", [], False, 7)


def test_a_tensor_of_another_device_is_an_error():
    with FakeTensorMode():
        there = torch.empty(3, device="cuda:1")
    with pytest.raises(ValueError, match="a tensor of the CPU is expected, not of cuda:1"):
        layouts.copied(there, (3,), (1,))
    with pytest.raises(ValueError, match="a tensor of cuda:0 is expected, not of cuda:1"):
        layouts.copier(stand_ins.GPU)(there, (3,), (1,))
    with FakeTensorMode(), pytest.raises(RuntimeError, match="compiles for the CPU and for CUDA; a tensor of meta"):
        backend.tcc(torch.fx.symbolic_trace(lambda x: -x), [torch.empty(3, device="meta")])


FORWARDS = {"flash": lambda q, k, v: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, scale=0.3),
            "efficient": lambda q, k, v: aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, True,
                                                                                      scale=0.3),
            "cudnn": lambda q, k, v: aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True, scale=0.3)}


def backward_of(kind: str, dy, q, k, v, made):
    out, lse = made[:2]
    if kind == "flash":
        return aten._scaled_dot_product_flash_attention_backward(dy, q, k, v, out, lse, made[2], made[3], made[4], made[5],
                                                                 0.0, True, made[6], made[7], scale=0.3)
    if kind == "efficient":
        return aten._scaled_dot_product_efficient_attention_backward(
            dy, q, k, v, None, out, lse, made[2], made[3], 0.0, [True, True, True, False], True, scale=0.3)
    return aten._scaled_dot_product_cudnn_attention_backward(dy, q, k, v, out, lse, made[6], made[7], None, made[2], made[3],
                                                             made[4], made[5], 0.0, True, scale=0.3)


def traced_on_gpu(function, *tensors, table=None) -> torch.fx.GraphModule:
    """The graph for tensors of a GPU that have these sizes and strides. PyTorch needs no GPU to trace its ops for one."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        there = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=stand_ins.GPU) for x in tensors]
        return make_fx(function, decomposition_table=decompositions() if table is None else table)(*there)


def on_cpu(module: torch.fx.GraphModule):
    """What such a graph computes, for tensors of the CPU. All of its ops have translations."""
    for node in module.graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": torch.device("cpu")}
    module.graph.eliminate_dead_code()
    converted = convert.convert(moved(module, torch.device("cpu")), "f", lambda device: [])
    assert not converted.fallbacks
    return converted.call()


def attention_and_gradients(kind: str):
    def function(dy, q, k, v):
        made = FORWARDS[kind](q, k, v)
        return made[0], *backward_of(kind, dy, q, k, v, made)[:3]
    return function


@pytest.mark.parametrize("heads", [3, 1])
@pytest.mark.parametrize("kind", FORWARDS)
def test_attention_of_gpus_is_translated(kind, heads):
    """PyTorch's ops for GPUs, and their gradients, as graphs of a GPU that compute on the CPU here; also with fewer heads
    of keys than of queries."""
    q, dy = torch.randn(2, 2, 3, 8, 16)
    k, v = torch.randn(2, 2, heads, 8, 16)
    call = on_cpu(traced_on_gpu(attention_and_gradients(kind), dy, q, k, v))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    wanted = F.scaled_dot_product_attention(*leaves, is_causal=True, scale=0.3, enable_gqa=True)
    grads = torch.autograd.grad(wanted, leaves, dy)
    for a, b in zip(call([dy, q, k, v]), (wanted, *grads), strict=True):
        assert a.shape == b.shape and torch.allclose(a, b, atol=2e-6)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)])
@pytest.mark.parametrize("kind", FORWARDS)
def test_attention_of_gpus_lies_as_pytorch_says(kind, order):
    """Views of results were traced with the strides that PyTorch's own ops give: train_step traces twice."""
    sizes, places = (2, 4, 32, 16), [order.index(dim) for dim in range(4)]
    q, k, v, dy = (torch.empty([sizes[dim] for dim in order]).permute(places) for _ in range(4))
    function = attention_and_gradients(kind)
    theirs, ours = (traced_on_gpu(function, dy, q, k, v, table=table) for table in ({}, None))
    wanted, seen = ([node.meta["val"].stride() for node in next(iter(reversed(module.graph.nodes))).args[0]]
                    for module in (theirs, ours))
    assert seen == wanted
    assert not any(f"_{kind}_attention." in str(node.target) for node in ours.graph.nodes)
    again = make_fx(torch.fx.Interpreter(theirs).run, decomposition_table=decompositions())
    with FakeTensorMode(allow_non_fake_inputs=True):
        again(*(torch.empty_strided(x.shape, x.stride(), device=stand_ins.GPU) for x in (dy, q, k, v)))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_gpus_is_translated(training):
    """cuDNN's op, whose schema does not say that it changes the running statistics."""
    x, dy = torch.randn(2, 4, 3, 5, 5)
    weight, bias, mean, variance = torch.rand(4, 3)
    variance += 1

    def function(x, dy, weight, bias, mean, variance):
        mean, variance = mean.clone(), variance.clone()
        y, *saved, reserve = aten.cudnn_batch_norm(x, weight, bias, mean, variance, training, 0.1, 1e-5)
        if training:
            grads = aten.cudnn_batch_norm_backward(x, dy, weight, mean, variance, *saved, 1e-5, reserve)
        else:
            grads = aten.native_batch_norm_backward(dy, x, weight, mean, variance, *saved, False, 1e-5, [True] * 3)
        return y, mean, variance, *grads

    first = traced_on_gpu(function, x, dy, weight, bias, mean, variance, table=train.written_out())
    second = torch.func.functionalize(torch.fx.Interpreter(first).run, remove="mutations")
    call = on_cpu(traced_on_gpu(lambda *args: second(*args), x, dy, weight, bias, mean, variance))
    seen = call([x, dy, weight, bias, mean, variance])
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    y = F.batch_norm(leaves[0], mean, variance, *leaves[1:], training, 0.1, 1e-5)
    for a, b in zip(seen, (y, mean, variance, *torch.autograd.grad(y, leaves, dy)), strict=True):
        assert torch.allclose(a, b, atol=1e-5)


LAYERS = {"lstm": lambda: torch.nn.LSTM(3, 4, num_layers=2), "projected": lambda: torch.nn.LSTM(3, 4, proj_size=2),
          "gru": lambda: torch.nn.GRU(3, 4, bidirectional=True, batch_first=True),
          "tanh": lambda: torch.nn.RNN(3, 4, bias=False), "relu": lambda: torch.nn.RNN(3, 4, nonlinearity="relu")}


@pytest.mark.parametrize("kind", LAYERS)
def test_recurrent_layers_of_gpus_are_written_out(kind):
    """cuDNN's own ops hold all weights in one memory, which no graph can."""
    layer = LAYERS[kind]()
    x = torch.randn(2, 5, 3)
    weights, states = list(layer.parameters()), []
    count = layer.num_layers * (1 + layer.bidirectional)
    rows = x.shape[0 if layer.batch_first else 1]
    states.append(torch.randn(count, rows, layer.proj_size or layer.hidden_size))
    if layer.mode == "LSTM":
        states.append(torch.randn(count, rows, layer.hidden_size))
    function = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu}[layer.mode]

    def run(x, *rest):
        held, given = rest[:len(states)], rest[len(states):]
        with Unrolled():
            return function(x, held if len(held) > 1 else held[0], given, layer.bias, layer.num_layers, 0.0, False,
                            layer.bidirectional, layer.batch_first)

    call = on_cpu(traced_on_gpu(run, x, *states, *weights))
    y, last = layer(x, tuple(states) if len(states) > 1 else states[0])
    seen = call([x, *states, *weights])
    for a, b in zip(seen, (y, *(last if isinstance(last, tuple) else [last])), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_attention_with_dropout_is_left_to_pytorch():
    q = torch.randn(1, 2, 8, 16)
    assert gpu_attention.flash(q, q, q, 0.1) is NotImplemented
    assert gpu_attention.efficient(q, q, q[:, :1], None, True) is NotImplemented
    assert gpu_attention.cudnn(q, q, q, None, True, 0.1) is NotImplemented


def test_autocast_of_a_gpu_is_another_step():
    model = models.NanoGpt()
    step = tcc.torch.train_step(model, lambda m, **batch: m(**batch), torch.optim.SGD(model.parameters(), 0.1))
    keys = []
    for enabled in (False, True):
        torch.set_autocast_enabled("cuda", enabled)  # torch.autocast does nothing where there is no GPU
        try:
            keys.append(step.key([torch.zeros(2)], ()))
        finally:
            torch.set_autocast_enabled("cuda", False)
    assert keys[0] != keys[1]
