"""The updates of torch's optimizers as functions of tensors: what `optimizer.step()` computes, traced into a step.

A rule says which states a parameter has (in `optimizer.state`, under torch's names), which numbers change from step to
step (they are inputs, so that a learning rate that a scheduler changes compiles nothing again), and the update.
"""

from __future__ import annotations

import math

import torch


class Rule:
    """One parameter's update. `group` is a dict of `optimizer.param_groups`."""

    #: Keys of a group that are compiled in: a step compiles again when one changes.
    fixed: tuple[str, ...] = ()
    #: Options of a group that compiled updates do not have, with the value that they must have.
    required: dict = {}

    def prepare(self, optimizer, parameter, group) -> bool:
        """Makes the parameter's states where they are missing, as the optimizer's first step does. Whether it did."""
        return False

    def states(self, state, group) -> list[str]:
        """Names of the tensors of `optimizer.state[parameter]` that the update changes."""
        return []

    def numbers(self, state, group, is_first: bool) -> list[float]:
        """Numbers of this step, which its counter has counted already; it is the first where its states are new."""
        return [float(group["lr"])]

    def counter(self, state) -> torch.Tensor | None:
        """What counts steps, where the optimizer does."""
        return None

    def update(self, parameter, gradient, states, numbers, group):
        """The parameter and its states after the step. `numbers` are scalars in f32."""
        raise NotImplementedError


def counter(group) -> torch.Tensor:
    return torch.zeros((), dtype=torch.float32)


class Adam(Rule):
    """torch.optim.Adam and AdamW (Kingma and Ba 2015; Loshchilov and Hutter 2019)."""

    fixed = ("betas", "eps", "weight_decay", "amsgrad", "maximize")

    def __init__(self, decoupled: bool):
        self.decoupled = decoupled

    def prepare(self, optimizer, parameter, group):
        state = optimizer.state[parameter]
        if state:
            return False
        state["step"] = counter(group)
        for name in ("exp_avg", "exp_avg_sq") + (("max_exp_avg_sq",) if group["amsgrad"] else ()):
            state[name] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return True

    def states(self, state, group):
        return ["exp_avg", "exp_avg_sq"] + (["max_exp_avg_sq"] if group["amsgrad"] else [])

    def counter(self, state):
        return state["step"]

    def numbers(self, state, group, is_first):
        step, (beta1, beta2), lr = float(state["step"]), group["betas"], float(group["lr"])
        return [1 - lr * group["weight_decay"], -lr / (1 - beta1 ** step), math.sqrt(1 - beta2 ** step)]

    def update(self, parameter, gradient, states, numbers, group):
        keep, size, root = numbers
        beta1, beta2 = group["betas"]
        gradient = -gradient if group["maximize"] else gradient
        if group["weight_decay"] and self.decoupled:
            parameter = parameter * keep
        elif group["weight_decay"]:
            gradient = gradient + parameter * group["weight_decay"]
        first = states[0] + (gradient - states[0]) * (1 - beta1)
        second = states[1] * beta2 + gradient * gradient * (1 - beta2)
        made = [first, second]
        largest = second
        if group["amsgrad"]:
            largest = torch.maximum(states[2], second)
            made.append(largest)
        return parameter + first / (largest.sqrt() / root + group["eps"]) * size, made


class Sgd(Rule):
    """torch.optim.SGD."""

    fixed = ("momentum", "dampening", "nesterov", "weight_decay", "maximize")

    def prepare(self, optimizer, parameter, group):
        if not group["momentum"] or optimizer.state[parameter].get("momentum_buffer") is not None:
            return False
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return True

    def numbers(self, state, group, is_first):
        # torch's first step takes the gradient itself: what is added to a buffer of zeros is not dampened.
        dampened = [1.0 if is_first else 1 - group["dampening"]] if group["momentum"] and group["dampening"] else []
        return [float(group["lr"]), *dampened]

    def states(self, state, group):
        return ["momentum_buffer"] if group["momentum"] else []

    def update(self, parameter, gradient, states, numbers, group):
        gradient = -gradient if group["maximize"] else gradient
        if group["weight_decay"]:
            gradient = gradient + parameter * group["weight_decay"]
        if not group["momentum"]:
            return parameter - gradient * numbers[0], []
        added = gradient * numbers[1] if group["dampening"] else gradient
        buffer = states[0] * group["momentum"] + added
        direction = gradient + buffer * group["momentum"] if group["nesterov"] else buffer
        return parameter - direction * numbers[0], [buffer]


class Muon(Rule):
    """torch.optim.Muon (Jordan 2024)."""

    fixed = ("momentum", "nesterov", "ns_coefficients", "ns_steps", "eps", "weight_decay", "adjust_lr_fn")

    def prepare(self, optimizer, parameter, group):
        state = optimizer.state[parameter]
        if "momentum_buffer" in state:
            return False
        state["momentum_buffer"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return True

    def states(self, state, group):
        return ["momentum_buffer"]

    def update(self, parameter, gradient, states, numbers, group):
        from torch.optim._muon import _adjust_lr
        buffer = states[0] + (gradient - states[0]) * (1 - group["momentum"])
        direction = gradient + (buffer - gradient) * group["momentum"] if group["nesterov"] else buffer
        a, b, c = group["ns_coefficients"]
        tall = parameter.shape[0] > parameter.shape[1]
        x = direction.to(torch.bfloat16)
        x = x.t() if tall else x
        norm = x.float().square().sum().sqrt().to(torch.bfloat16)
        x = x / norm.clamp(min=group["eps"])
        for _ in range(group["ns_steps"]):
            gram = x @ x.t()
            x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        x = x.t() if tall else x
        share = _adjust_lr(1.0, group["adjust_lr_fn"], parameter.shape)
        parameter = parameter - parameter * (numbers[0] * group["weight_decay"])
        return parameter - x.to(parameter.dtype) * (numbers[0] * share), [buffer]


class Lion(torch.optim.Optimizer):
    """Lion (Chen et al. 2023): the sign of an interpolated momentum."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        if lr < 0 or not all(0 <= beta < 1 for beta in betas) or weight_decay < 0:
            raise ValueError(f"Lion: lr {lr}, betas {betas}, weight_decay {weight_decay}; none is negative, betas are "
                             "below 1")
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        rule = LionRule()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                rule.prepare(self, parameter, group)
                state = self.state[parameter]
                new, (average,) = rule.update(parameter, parameter.grad, [state["exp_avg"]], [group["lr"]], group)
                parameter.copy_(new)
                state["exp_avg"].copy_(average)
        return loss


class LionRule(Rule):
    fixed = ("betas", "weight_decay")

    def prepare(self, optimizer, parameter, group):
        state = optimizer.state[parameter]
        if "exp_avg" in state:
            return False
        state["exp_avg"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return True

    def states(self, state, group):
        return ["exp_avg"]

    def update(self, parameter, gradient, states, numbers, group):
        (average,), (lr,), (beta1, beta2) = states, numbers, group["betas"]
        direction = torch.sign(average * beta1 + gradient * (1 - beta1))
        if group["weight_decay"]:
            parameter = parameter - parameter * (lr * group["weight_decay"])
        return parameter - direction * lr, [average * beta2 + gradient * (1 - beta2)]


def rule_of(optimizer: torch.optim.Optimizer) -> Rule:
    """Throws TypeError for an optimizer that has none."""
    kinds = {torch.optim.AdamW: Adam(decoupled=True), torch.optim.Adam: Adam(decoupled=False), torch.optim.SGD: Sgd(),
             Lion: LionRule()}
    if hasattr(torch.optim, "Muon"):
        kinds[torch.optim.Muon] = Muon()
    if type(optimizer) not in kinds:
        raise TypeError(f"train_step knows {', '.join(kind.__name__ for kind in kinds)}, not "
                        f"{type(optimizer).__name__}; use torch.compile(model, backend='tcc') with any optimizer")
    rule = kinds[type(optimizer)]
    for group in optimizer.param_groups:
        if group.get("decoupled_weight_decay") and isinstance(rule, Adam):
            rule = Adam(decoupled=True)
        if group.get("differentiable"):
            raise TypeError("train_step does not differentiate through the optimizer (differentiable=True)")
    return rule
