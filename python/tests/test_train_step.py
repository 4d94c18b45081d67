"""tcc.torch.train_step beside the same steps of eager PyTorch."""

import copy

import models
import pytest
import torch
import torch.nn as nn

import tcc.torch
from tcc.torch.pieces import Pieces

OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.1),
    "adam": lambda p: torch.optim.Adam(p, 1e-3, weight_decay=0.01, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True, weight_decay=0.01),
    "dampened sgd": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, dampening=0.2),
    "plain sgd": lambda p: torch.optim.SGD(p, 1e-2),
    "lion": lambda p: tcc.torch.Lion(p, 1e-4, weight_decay=0.1),
}


def loss_of(model, **batch):
    return model(**batch)


def eager(model, optimizer, batches, clip=None, scheduler=None):
    losses, norms = [], []
    for batch in batches:
        loss = model(**batch)
        loss.backward()
        if clip is not None:
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), clip).item())
        optimizer.step()
        optimizer.zero_grad()
        if scheduler:
            scheduler.step()
        losses.append(loss.item())
    return losses, norms


def near(a, b, tolerance=1e-5):
    return max(abs(x - y) / max(abs(y), 1e-12) for x, y in zip(a, b, strict=True)) < tolerance


def test_what_is_alike_is_traced_once(monkeypatch):
    traced = []
    trace = Pieces.trace
    monkeypatch.setattr(Pieces, "trace", lambda *args: traced.append(1) or trace(*args))
    seen = []
    for layers in (1, 4):
        del traced[:]
        model = nn.Sequential(*(nn.Linear(6, 6) for _ in range(layers)))
        step = tcc.torch.train_step(model, lambda model, x: model(x).square().mean(),
                                    torch.optim.AdamW(model.parameters(), 1e-3), clip=1.0)
        step(torch.randn(3, 6))
        seen.append(len(traced))
    # Forward and backward, the norm, and for weights and for biases: the sum of squares, clipping, AdamW.
    assert seen == [8, 8]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    model = models.NanoGpt()
    other = copy.deepcopy(model)
    first, second = OPTIMIZERS[name](model.parameters()), OPTIMIZERS[name](other.parameters())
    batches = [models.tokens() for _ in range(8)]
    wanted, norms = eager(model, first, batches, clip=0.5)
    step = tcc.torch.train_step(other, loss_of, second, clip=0.5, options={"fallback": "error"})
    places = [p.data_ptr() for p in other.parameters()]
    losses, seen = [], []
    for batch in batches:
        losses.append(step(**batch).item())
        seen.append(step.norm.item())
    assert near(losses, wanted) and near(seen, norms, 1e-4)
    assert places == [p.data_ptr() for p in other.parameters()]  # updated where torch has them
    a, b = first.state_dict(), second.state_dict()
    assert a["param_groups"] == b["param_groups"]
    for key, state in a["state"].items():
        assert state.keys() == b["state"][key].keys()
        for entry, value in state.items():
            if value is None:
                continue
            assert (value - b["state"][key][entry]).norm() <= 2e-3 * value.norm() + 1e-7, (key, entry)
    assert len(tcc.torch.report().steps) == 1


@pytest.mark.long
def test_muon():
    model = models.NanoGpt()
    other = copy.deepcopy(model)

    def make(model):
        return torch.optim.Muon([p for n, p in model.named_parameters() if p.dim() == 2 and "blocks" in n], 2e-3)

    batches = [models.tokens() for _ in range(4)]
    wanted, _ = eager(model, make(model), batches)
    step = tcc.torch.train_step(other, loss_of, make(other))
    assert near([step(**batch).item() for batch in batches], wanted, 1e-3)
    for (name, a), b in zip(model.named_parameters(), other.parameters()):
        assert (a - b).norm() <= 5e-3 * a.norm(), name  # bf16 inside; parameters without an optimizer stay


@pytest.mark.long
def test_schedulers_and_checkpoints(tmp_path):
    model = models.NanoGpt()
    other = copy.deepcopy(model)
    optimizer, mine = OPTIMIZERS["adamw"](model.parameters()), OPTIMIZERS["adamw"](other.parameters())
    batches = [models.tokens() for _ in range(8)]

    def schedule(optimizer):
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)

    wanted, _ = eager(model, optimizer, batches, scheduler=schedule(optimizer))
    scheduler = schedule(mine)
    step = tcc.torch.train_step(other, loss_of, mine)
    losses = []
    for batch in batches[:4]:
        losses.append(step(**batch).item())
        scheduler.step()
    torch.save({"model": other.state_dict(), "optimizer": mine.state_dict(), "scheduler": scheduler.state_dict()},
               tmp_path / "run.pt")
    again = models.NanoGpt()
    optimizer = OPTIMIZERS["adamw"](again.parameters())
    scheduler = schedule(optimizer)
    saved = torch.load(tmp_path / "run.pt")
    again.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    step = tcc.torch.train_step(again, loss_of, optimizer)
    for batch in batches[4:]:
        losses.append(step(**batch).item())
        scheduler.step()
    assert near(losses, wanted)
    assert len(tcc.torch.report().steps) == 2  # rates that change compile nothing


@pytest.mark.long
def test_accumulation_is_the_mean():
    model = models.NanoGpt()
    other = copy.deepcopy(model)
    batches = [models.tokens(8) for _ in range(4)]
    wanted, _ = eager(model, OPTIMIZERS["sgd"](model.parameters()), batches)
    step = tcc.torch.train_step(other, loss_of, OPTIMIZERS["sgd"](other.parameters()), accumulate=2)
    assert near([step(**batch).item() for batch in batches], wanted)
    with pytest.raises(ValueError, match="7 cannot be cut into 2"):
        step(**models.tokens(7))
    assert near([step(**batches[0]).item()], [model(**batches[0]).item()])  # and the step still works


def test_buffers_and_modes():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))

        def forward(self, x, y):
            return torch.nn.functional.cross_entropy(self.layers(x), y)

    model = Model()
    other = copy.deepcopy(model)
    batches = [{"x": torch.randn(16, 8), "y": torch.randint(0, 4, (16,))} for _ in range(5)]
    wanted, _ = eager(model, OPTIMIZERS["sgd"](model.parameters()), batches)
    step = tcc.torch.train_step(other, loss_of, OPTIMIZERS["sgd"](other.parameters()), options={"fallback": "error"})
    assert near([step(**batch).item() for batch in batches], wanted)
    for (name, a), (_, b) in zip(other.named_buffers(), model.named_buffers(), strict=True):
        assert torch.allclose(a, b, atol=1e-6), name


@pytest.mark.long
def test_convolutions_and_batch_norm():
    model = models.ResNet()
    other = copy.deepcopy(model)
    batches = [models.larger_images() for _ in range(4)]
    wanted, _ = eager(model, OPTIMIZERS["plain sgd"](model.parameters()), batches)
    step = tcc.torch.train_step(other, loss_of, OPTIMIZERS["plain sgd"](other.parameters()),
                                options={"fallback": "error"})
    assert near([step(**batch).item() for batch in batches], wanted, 1e-4)
    for (name, a), (_, b) in zip(other.named_buffers(), model.named_buffers(), strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5), name


@pytest.mark.long
def test_a_state_of_an_optimizer_that_has_run():
    model = models.NanoGpt()
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    batches = [models.tokens() for _ in range(6)]
    eager(model, optimizer, batches[:3])
    other = copy.deepcopy(model)
    mine = OPTIMIZERS["adamw"](other.parameters())
    mine.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    wanted, _ = eager(model, optimizer, batches[3:])
    step = tcc.torch.train_step(other, loss_of, mine)
    assert near([step(**batch).item() for batch in batches[3:]], wanted)


@pytest.mark.parametrize("what", ["scalar", "vector", "column", "turned"])
def test_tensors_of_the_loss_function_may_change(what):
    held = {"scalar": torch.tensor(1.0), "vector": torch.ones(8), "column": torch.rand(8, 16)[:, ::2],
            "turned": torch.rand(8, 8).t()}[what]
    model = torch.nn.Linear(8, 8)
    step = tcc.torch.train_step(model, lambda model, x: (model(x) * held).square().mean(),
                                OPTIMIZERS["plain sgd"](model.parameters()))
    for _ in range(3):
        x = torch.randn(8, 8)
        wanted = (model(x) * held).square().mean().item()
        assert near([step(x).item()], [wanted])
        held += 1
    assert len(tcc.torch.report().steps) == 1


@pytest.mark.parametrize("what", ["counter", "teacher"])
def test_a_loss_function_may_write_into_what_is_not_the_models(what):
    def made():
        torch.manual_seed(1)
        model, teacher = torch.nn.Linear(8, 8), torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
        count = torch.zeros(2)

        def loss(model, x):
            with torch.no_grad():
                wanted = teacher(x) if what == "teacher" else x * count[:1].add_(1) + count.add_(1).sum()
            return torch.nn.functional.mse_loss(model(x), wanted)

        return model, loss, [count, *teacher.buffers()]

    (model, loss, held), (other, other_loss, other_held) = made(), made()
    optimizer = OPTIMIZERS["plain sgd"](model.parameters())
    step = tcc.torch.train_step(other, other_loss, OPTIMIZERS["plain sgd"](other.parameters()))
    for _ in range(3):
        x = torch.randn(8, 8)
        wanted = loss(model, x)
        wanted.backward()
        optimizer.step()
        optimizer.zero_grad()
        assert near([step(x).item()], [wanted.item()])
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(held, other_held))
    assert "is not the model's" in tcc.torch.report().cuts[0]


class Keeping(torch.nn.Module):
    """Puts other tensors in place of what it holds."""

    def __init__(self, what):
        super().__init__()
        self.what, self.layer, self.last = what, torch.nn.Linear(8, 8), None
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x, y):
        x = self.layer(x)
        if self.what == "buffer":
            self.average = 0.9 * self.average + 0.1 * x.detach().mean(0)
        elif self.what == "larger buffer":
            self.average = torch.cat([self.average, x.detach()[0, :1]])
        elif self.last is None or self.what == "attribute":
            x = x if self.last is None else x + self.last
            self.last = x.detach()[0]
            x = x * x.detach().sum().sign().item() if self.what == "attribute" else x
        return torch.nn.functional.cross_entropy(x + self.average.sum(), y)


@pytest.mark.parametrize("what", ["buffer", "larger buffer", "attribute"])
def test_a_model_that_keeps_tensors(what):
    model = Keeping(what)
    other = copy.deepcopy(model)
    batches = [{"x": torch.randn(4, 8), "y": torch.randint(0, 8, (4,))} for _ in range(4)]
    wanted, _ = eager(model, OPTIMIZERS["plain sgd"](model.parameters()), batches)
    step = tcc.torch.train_step(other, loss_of, OPTIMIZERS["plain sgd"](other.parameters()))
    assert near([step(**batch).item() for batch in batches], wanted)
    assert torch.allclose(model.average, other.average, atol=1e-6)
    assert what != "attribute" or torch.allclose(model.last, other.last, atol=1e-6)
    assert bool(tcc.torch.report().cuts) == (what != "buffer")


def test_what_is_trained_may_change_between_steps():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 8))
    model[1].eval()
    model[0].weight.requires_grad_(False)
    other = copy.deepcopy(model)
    first, second = (torch.optim.SGD(m[0].parameters(), 0.1, momentum=0.9) for m in (model, other))
    step = tcc.torch.train_step(other, lambda model, x: model(x).square().mean(), second)
    for turn in range(5):
        for m, optimizer in ((model, first), (other, second)):
            m[0].weight.requires_grad_(turn in (1, 2, 4))
            if turn == 2:
                optimizer.add_param_group({"params": m[2].parameters(), "lr": 0.2})
            m[1].train(turn == 3)
        x = torch.randn(4, 8)
        seen = step(x).item()
        wanted = model(x).square().mean()
        if turn == 3:  # the elements that are dropped are others
            assert not near([seen], [wanted.item()])
            other.load_state_dict(model.state_dict())
            second.load_state_dict(copy.deepcopy(first.state_dict()))
            continue
        wanted.backward()
        first.step()
        first.zero_grad()
        assert near([seen], [wanted.item()]), turn
    for (name, a), b in zip(model.named_parameters(), other.parameters()):
        assert torch.allclose(a, b, atol=1e-6), name


class Chosen(torch.nn.Module):
    """Uses its first layer, and its second where `both`; the third never."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x, both):
        x = self.layers[0](x)
        return (self.layers[1](x) if both else x).square().mean()


@pytest.mark.parametrize("takes_numbers", [False, True])
def test_an_optimizer_that_trains_nothing(takes_numbers):
    """All its parameters are frozen; takes_numbers: in a model that cannot be one graph with it."""
    torch.manual_seed(4)
    model = torch.nn.Linear(5, 3)
    optimizer = torch.optim.AdamW([model.weight], 1e-2)
    model.weight.requires_grad_(False)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}

    def loss(m, x):
        made = m(x).square()
        return made.sum() * (made.max().item() if takes_numbers else 2.0)

    step = tcc.torch.train_step(model, loss, optimizer, clip=1.0, accumulate=2)
    x = torch.randn(4, 5)
    for _ in range(2):
        expected = sum(loss(model, part).item() for part in x.split(2)) / 2
        assert abs(step(x).item() - expected) <= 1e-5 * abs(expected)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert not optimizer.state


@pytest.mark.parametrize("name", ["adamw", "plain sgd", "dampened sgd", "lion"])
def test_parameters_without_a_gradient_stay(name):
    model = Chosen()
    other = copy.deepcopy(model)
    first, second = OPTIMIZERS[name](model.parameters()), OPTIMIZERS[name](other.parameters())
    batches = [{"x": torch.randn(4, 8), "both": both} for both in (False, True, True, False, True)]
    wanted, _ = eager(model, first, batches)
    step = tcc.torch.train_step(other, loss_of, second)
    assert near([step(**batch).item() for batch in batches], wanted)
    for (key, a), b in zip(model.named_parameters(), other.parameters()):
        assert torch.allclose(a, b, atol=1e-6), key
    a, b = first.state_dict()["state"], second.state_dict()["state"]
    assert {i: {n: float(v) for n, v in state.items() if n == "step"} for i, state in a.items()} == \
        {i: {n: float(v) for n, v in state.items() if n == "step"} for i, state in b.items()}
    assert torch.equal(model.layers[2].weight, other.layers[2].weight)


def branch(x):
    return x * 2 if x.sum() > 0 else x - 1


def clipped(x):
    return x / x.detach().abs().max().item()


def picked(x):
    return x[x > 0].sum()


def raised(x):
    x[x > 0] += 0.5
    return x


@pytest.mark.parametrize("function, accumulate", [(branch, 2), (clipped, 1), (picked, 1), (raised, 1)])
def test_what_depends_on_values_cuts_the_step(function, accumulate):
    model = torch.nn.Sequential(torch.nn.Linear(8, 6, bias=False), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 4))
    other = copy.deepcopy(model)
    first, second = OPTIMIZERS["adamw"](model.parameters()), OPTIMIZERS["adamw"](other.parameters())
    step = tcc.torch.train_step(other, lambda model, x: function(model(x)).square().mean(), second, clip=0.5,
                                accumulate=accumulate)
    for _ in range(3):
        x = torch.randn(6, 8)
        loss = sum(function(model(part)).square().mean() / accumulate for part in x.chunk(accumulate))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        first.step()
        first.zero_grad()
        assert near([step(x).item(), step.norm.item()], [loss.item(), norm.item()])
    for a, b in zip([*model.parameters(), *model.buffers()], [*other.parameters(), *other.buffers()]):
        assert torch.allclose(a, b, atol=1e-6)
    breaks = [text for text in tcc.torch.report().breaks if text.startswith("train_step: ")]
    assert len(breaks) == 1 and "depends on what tensors hold" in breaks[0] and "test_train_step.py:" in breaks[0]
    strict = tcc.torch.train_step(other, lambda model, x: function(model(x)).square().mean(), second,
                                  options={"fallback": "error"})
    with pytest.raises(RuntimeError, match="train_step: aten.* depends on what tensors hold"):
        strict(x)


def test_bad_use():
    model = models.NanoGpt()
    with pytest.raises(TypeError, match="train_step knows AdamW, .* not Adagrad"):
        tcc.torch.train_step(model, loss_of, torch.optim.Adagrad(model.parameters()))
    with pytest.raises(ValueError, match="not the model's"):
        tcc.torch.train_step(model, loss_of, torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], 0.1))
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    step = tcc.torch.train_step(model, lambda model, **batch: model(**batch) * torch.ones(2), optimizer)
    with pytest.raises(TypeError, match="not one number"):
        step(**models.tokens())
    assert all(float(state["step"]) == 0 for state in optimizer.state.values())  # a step that failed is not counted


@pytest.mark.long
@pytest.mark.parametrize("make", [lambda: nn.LSTM(8, 16, batch_first=True), lambda: nn.GRU(8, 8, 2, bidirectional=True)])
def test_recurrent_layers_train_as_one_executable(make):
    torch.manual_seed(1)
    model = make()
    other = copy.deepcopy(model)
    first, second = (torch.optim.SGD(m.parameters(), 0.5, momentum=0.9) for m in (model, other))
    step = tcc.torch.train_step(other, lambda m, x: m(x)[0].square().mean(), second, options={"fallback": "error"})
    for _ in range(3):
        x = torch.randn(4, 6, 8)
        wanted = model(x)[0].square().mean()
        wanted.backward()
        first.step()
        first.zero_grad()
        assert near([step(x).item()], [wanted.item()])
    assert [s.name for s in tcc.torch.report().steps] == ["train_step"] and not tcc.torch.report().cuts
    for a, b in zip(model.parameters(), other.parameters()):
        assert torch.allclose(a, b, atol=1e-6)
    assert torch.allclose(other(x)[0], model(x)[0], atol=1e-6)  # its own list of weights is as it was


def test_packed_sequences_cut_the_step():
    model = nn.LSTM(2, 3)
    other = copy.deepcopy(model)

    def loss(model, x):
        return model(nn.utils.rnn.pack_padded_sequence(x, [4, 2]))[1][0].square().mean()
    step = tcc.torch.train_step(model, loss, torch.optim.SGD(model.parameters(), 0.1))
    x = torch.randn(4, 2, 2)
    assert near([step(x).item()], [loss(other, x).item()])
    assert len(tcc.torch.report().cuts) == 1


def test_a_long_sequence_cuts_the_step():
    model = nn.RNN(2, 2)
    step = tcc.torch.train_step(model, lambda m, x: m(x)[0].square().mean(), torch.optim.SGD(model.parameters(), 0.1))
    x = torch.randn(129, 1, 2)
    wanted = model(x)[0].square().mean()
    assert near([step(x).item()], [wanted.item()])
    assert "train_step: rnn_tanh has 129 steps, and a graph would hold each of them" in tcc.torch.report().cuts[0]


class Storage(nn.Module):
    """Does with storages what cuDNN's LSTM does, which no tracer knows."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        held = torch.empty(0)
        held.set_(x.untyped_storage(), 0, (3,), (1,))
        return (held * self.weight).sum()


def test_what_cannot_be_traced_cuts_the_step():
    model = Storage()
    step = tcc.torch.train_step(model, lambda m, x: m(x), torch.optim.SGD(model.parameters(), 0.5))
    for wanted in (6.0, -1.0):
        assert step(torch.arange(1.0, 4.0)).item() == wanted
    cut, = tcc.torch.report().cuts
    assert cut.startswith("train_step: tracing ends with ") and "test_train_step.py:" in cut
    again = tcc.torch.train_step(model, lambda m, x: m(x), torch.optim.SGD(model.parameters(), 0.5),
                                 options={"fallback": "error"})
    with pytest.raises(RuntimeError, match="train_step: tracing ends with "):
        again(torch.ones(3))


def test_a_model_that_is_wrong_says_so_itself():
    model = nn.Linear(3, 3)
    step = tcc.torch.train_step(model, lambda m, x: m(x).sum(), torch.optim.AdamW(model.parameters()))
    with pytest.raises(RuntimeError, match="mat1 and mat2|same reduction dim"):
        step(torch.ones(2, 4))
    assert not step.optimizer.state
    assert step(torch.ones(2, 3)).shape == ()
