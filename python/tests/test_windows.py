"""Convolutions, pools, steps, padding, order and masked attention beside eager: values and gradients, without a fallback."""

import math

import pytest
import torch
import torch.nn.functional as F

import tcc.torch


def check(function, *inputs, tolerance=1e-5):
    """Results and gradients of floating-point inputs, relative to the largest element."""
    def own():
        return [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]

    def close(seen, wanted):
        assert seen.dtype == wanted.dtype and seen.shape == wanted.shape
        seen, wanted = seen.double(), wanted.double()
        same = (seen == wanted) | (seen.isnan() & wanted.isnan())
        apart = torch.where(same, 0, (seen - wanted).abs())
        largest = wanted[wanted.isfinite()].abs().max().item() if wanted.isfinite().any() else 0
        assert wanted.numel() == 0 or apart.max().item() <= tolerance * largest

    torch._dynamo.reset()
    mine, theirs = own(), own()
    seen = torch.compile(function, backend="tcc", options={"fallback": "error"})(*mine)
    wanted = function(*theirs)
    seen, wanted = ((made,) if isinstance(made, torch.Tensor) else made for made in (seen, wanted))
    for a, b in zip(seen, wanted, strict=True):
        close(a, b)
    pairs = [(a, b, torch.randn_like(b)) for a, b in zip(seen, wanted) if b.requires_grad]
    if pairs:
        torch.autograd.backward([a for a, _, _ in pairs], [dy for _, _, dy in pairs])
        torch.autograd.backward([b for _, b, _ in pairs], [dy for _, _, dy in pairs])
        for a, b in zip(mine, theirs):
            if b.grad is not None:
                close(a.grad, b.grad)


#: stride, padding, dilation, groups
WAYS = [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 2, 1, 4), (1, "same", 1, 1)]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("stride, padding, dilation, groups", WAYS)
def test_convolutions(dims, stride, padding, dilation, groups):
    function = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    x, w, bias = torch.randn(2, 4, *(9, 7, 5)[:dims]), torch.randn(8, 4 // groups, *(3, 2, 3)[:dims]), torch.randn(8)
    check(lambda x, w, bias: function(x, w, bias, stride, padding, dilation, groups), x, w, bias)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("stride, padding, output_padding, dilation, groups", [
    (1, 0, 0, 1, 1), (2, 1, 1, 1, 1), (1, 2, 0, 2, 2), (3, 2, 1, 1, 4)])
def test_transposed_convolutions(dims, stride, padding, output_padding, dilation, groups):
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
    x, w, bias = torch.randn(2, 4, *(6, 7, 5)[:dims]), torch.randn(4, 8 // groups, *(3, 4, 3)[:dims]), torch.randn(8)
    check(lambda x, w, bias: function(x, w, bias, stride, padding, output_padding, groups, dilation), x, w, bias)


@pytest.mark.parametrize("x, w", [((1, 1, 1, 1), (1, 1, 1, 1)), ((2, 4, 8, 8), (6, 4, 1, 1)), ((3, 5, 5), (2, 3, 5, 5))])
def test_convolutions_of_few_places(x, w):
    check(lambda x, w: F.conv2d(x, w, stride=2), torch.randn(x), torch.randn(w))


def test_convolutions_of_16_bits():
    x, w = torch.randn(2, 4, 9, 7).bfloat16(), torch.randn(6, 4, 3, 3).bfloat16()
    check(lambda x, w: F.conv2d(x, w, padding=1), x, w, tolerance=2e-2)


@pytest.mark.parametrize("size, stride, padding, dilation, ceil_mode", [
    (2, 2, 0, 1, False), (3, 2, 1, 1, False), (3, 2, 1, 1, True), (3, 3, 1, 2, True), ((3, 2), (2, 1), (1, 0), (1, 2), True)])
@pytest.mark.parametrize("shape", [(2, 3, 9, 7), (3, 8, 8), (1, 1, 7, 5)])
def test_maxima_of_windows(size, stride, padding, dilation, ceil_mode, shape):
    check(lambda x: F.max_pool2d(x, size, stride, padding, dilation, ceil_mode, return_indices=True), torch.randn(shape))


def test_maxima_of_equal_and_infinite_elements():
    x = torch.randn(2, 3, 8, 8)
    x[0, 0, :3, :3], x[1, 1, 4], x[1, 2, 5, 5] = -math.inf, 1.0, math.inf
    check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)
    check(lambda x: F.max_pool3d(x, 2, 2, 1), torch.randn(2, 3, 6, 5, 7))
    check(lambda x: F.max_pool1d(x, 3, 2, 1), torch.randn(2, 3, 9))


@pytest.mark.parametrize("size, stride, padding, ceil_mode, counts_padding, divisor", [
    (2, 2, 0, False, True, None), (3, 2, 1, False, True, None), (3, 2, 1, True, True, None), (3, 2, 1, True, False, None),
    (3, 1, 1, False, False, 5), ((3, 2), (1, 2), (1, 0), True, False, None)])
@pytest.mark.parametrize("shape", [(2, 3, 9, 7), (3, 8, 8)])
def test_means_of_windows(size, stride, padding, ceil_mode, counts_padding, divisor, shape):
    check(lambda x: F.avg_pool2d(x, size, stride, padding, ceil_mode, counts_padding, divisor), torch.randn(shape))


def test_means_of_windows_in_other_dims():
    check(lambda x: F.avg_pool1d(x, 3, 2, 1), torch.randn(2, 3, 9))
    check(lambda x: F.avg_pool3d(x, 3, 2, 1, True, False), torch.randn(2, 3, 6, 7, 5))


@pytest.mark.parametrize("places", [(1, 1), (2, 3), (3, 3), (7, 5), (9, 9), (12, 1)])
def test_adaptive_means(places):
    check(lambda x: F.adaptive_avg_pool2d(x, places), torch.randn(2, 3, 9, 9))


@pytest.mark.parametrize("start, end, step", [(0, None, 2), (1, -1, 3), (5, 2, 2), (-3, None, 2), (0, 100, 7), (2, 9, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_slices_with_steps(start, end, step, dtype):
    check(lambda x: x[:, start:end:step].clone(), (torch.randn(3, 9, 2) * 3).to(dtype))

    def written(x, part):
        x = x.clone()
        x[:, start:end:step] = part
        return x
    x = (torch.randn(3, 9, 2) * 3).to(dtype)
    check(written, x, torch.ones_like(x[:, start:end:step]))


@pytest.mark.parametrize("value", [0.0, 1.5, -0.0, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_padding_with_a_value(value, dtype):
    check(lambda x: F.pad(x, (1, -2, 0, 3), value=value), torch.randn(3, 4).to(dtype))


def test_padding_of_integers_and_truths():
    check(lambda x: F.pad(x, (1, 2), value=-7), torch.arange(5))
    check(lambda x: F.pad(x, (1, 2), value=True), torch.arange(5) > 2)


def test_columns():
    def columns(x):
        return F.unfold(x, (3, 2), dilation=(1, 2), padding=1, stride=2)
    x = torch.randn(2, 3, 7, 8)
    check(columns, x)
    check(lambda x: F.fold(x, (7, 8), (3, 2), dilation=(1, 2), padding=1, stride=2), columns(x))


@pytest.mark.parametrize("shape, dim", [((100,), 0), ((3, 17), 1), ((5, 4, 2), 0), ((1,), 0), ((0, 3), 1)])
@pytest.mark.parametrize("descending", [False, True])
def test_order(shape, dim, descending):
    x = torch.randn(shape)
    check(lambda x: torch.sort(x, dim=dim, descending=descending, stable=True), x)
    few = (torch.randn(shape) * 2).round()
    check(lambda x: torch.sort(x, dim=dim, descending=descending, stable=True), few)
    check(lambda x: torch.sort(x, dim=dim, descending=descending, stable=True), few.long())
    if x.numel():
        check(lambda x: torch.topk(x, (x.shape[dim] + 1) // 2, dim, descending), x)
        x.view(-1)[0] = math.nan
        check(lambda x: torch.sort(x, dim=dim, descending=descending, stable=True)[1], x)


def causal(rows):
    return torch.ones(rows, rows, dtype=torch.bool).tril()


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("mask", [causal(200), torch.randn(200, 200), torch.rand(2, 1, 1, 200) > 0.3,
                                  torch.randn(1, 5, 200, 1)], ids=["causal", "added", "keys", "queries"])
def test_attention_with_a_mask(mask, dtype, tolerance):
    q, k, v = (torch.randn(2, 5, 200, 32).to(dtype) for _ in range(3))
    mask = mask if mask.dtype == torch.bool else mask.to(dtype)
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), q, k, v, tolerance=tolerance)
    assert tcc.torch.report().steps[-1].matmuls == 0  # one op forward, one backward


def test_a_query_that_sees_nothing():
    mask = torch.rand(2, 3, 17, 9) > 0.5
    mask[0, 1, 3] = False
    q, k, v = torch.randn(2, 3, 17, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8)
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), q, k, v)


def test_gradient_of_a_mask():
    q, k, v, mask = *(torch.randn(2, 3, 17, 8) for _ in range(3)), torch.randn(2, 3, 17, 17)
    check(lambda *given: F.scaled_dot_product_attention(*given), q, k, v, mask)
