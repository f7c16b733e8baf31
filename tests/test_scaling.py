"""Chapter 3: right answers in many styles pass, wrong ones are told apart, the text's numbers hold."""

import math

import numpy as np
import pytest
import torch

from grader.exercises import find
from grader.exercises import scaling as declared
from grader.faults import find_fault
from grader.judge import judge
from utils.check import collect
from utils.reference import scaling as right
from utils.reference.dictionary_lookup import softmax, softmax_jacobian

# ---- right answers ------------------------------------------------------------------------------


def rademacher_std(d_k, n, rng):
    q, k = (rng.choice([-1, 1], size=(n, d_k)) for _ in range(2))
    return np.std(np.sum(q * k, axis=1), ddof=1)


def uniform_std(d_k, n, rng):
    q, k = rng.uniform(-(3**0.5), 3**0.5, (2, n, d_k))
    return np.einsum("nd,nd->n", q, k).std()


def looped_std(d_k, n, rng):
    scores = [rng.normal(size=d_k) @ rng.normal(size=d_k) for _ in range(n)]
    mean = sum(scores) / n
    return math.sqrt(sum((s - mean) ** 2 for s in scores) / n)


def torch_std(d_k, n, rng):
    q, k = torch.as_tensor(rng.standard_normal((2, n, d_k), dtype=np.float32))
    return (q * k).sum(-1).std()


def seeded_std(d_k, n, rng):
    q, k = (np.random.default_rng(int(rng.integers(2**32))).normal(size=(n, d_k)) for _ in "qk")
    return (q * k).sum(1).std()


def spawned_std(d_k, n, rng):
    q, k = (child.normal(size=(n, d_k)) for child in rng.spawn(2))
    return (q * k).sum(1).std()


def rms_of_signs(d_k, n, rng):
    """The mean is known to be 0; at d_k = 1 this is the theory to the last digit."""
    q, k = rng.choice([-1.0, 1.0], (2, n, d_k))
    return np.sqrt(np.mean(np.sum(q * k, axis=1) ** 2))


def looped_entropy(weights):
    """The axes that the text names, and no others."""
    weights = np.asarray(weights, dtype=float)
    if weights.ndim > 2:
        return np.stack([looped_entropy(w) for w in weights])
    return np.array(
        [-sum(x * math.log(x) for x in weights[t] if x > 0) for t in range(len(weights))]
    )


def looped_vjp(weights, upstream):
    p, g = np.asarray(weights, dtype=float), np.asarray(upstream, dtype=float)
    if p.ndim > 2:
        return np.stack([looped_vjp(a, b) for a, b in zip(p, g, strict=True)])
    return np.array([p[t] * (g[t] - sum(p[t, s] * g[t, s] for s in range(p.shape[1]))) for t in range(len(p))])  # fmt: skip


def diagonal_std(d_k, n, rng):
    return np.diag(rng.normal(size=(n, d_k)) @ rng.normal(size=(d_k, n))).std()


def masked_entropy(weights):
    p = np.asarray(weights, dtype=float)
    terms = np.zeros_like(p)
    terms[p > 0] = p[p > 0] * np.log(p[p > 0])
    return -terms.sum(-1)


def quiet_entropy(weights):
    p = np.asarray(weights)
    return -np.nansum(p * np.log(p), axis=-1)


def torch_entropy(weights):
    return torch.special.entr(torch.as_tensor(np.asarray(weights)).double()).sum(-1)


def einsum_scores(q, k, scale=None):
    scale = np.shape(q)[-1] ** -0.5 if scale is None else scale
    return np.einsum("...td,...sd->...ts", q, k) * scale


def query_scaled_first(q, k, scale=None):
    q, k = np.asarray(q, dtype=float), np.asarray(k, dtype=float)
    q = q / math.sqrt(q.shape[-1]) if scale is None else q * scale
    return q @ k.swapaxes(-2, -1)


def listed_scores(q, k, scale=None):
    return einsum_scores(q, k, scale).tolist()


def float32_scores(q, k, scale=None):
    return np.asarray(einsum_scores(np.asarray(q, "f4"), np.asarray(k, "f4"), scale), "f4")


def sdpa(q, k, v, scale=None):
    q, k, v = (torch.as_tensor(np.asarray(x)).double() for x in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)
    weights = torch.softmax(q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale), -1)
    return out, weights


def own_softmax(q, k, v, scale=None):
    s = query_scaled_first(q, k, scale)
    e = np.exp(s - s.max(-1, keepdims=True))
    w = e / e.sum(-1, keepdims=True)
    return [np.einsum("...ts,...sd->...td", w, v), w]


def full_jacobian(weights, upstream):
    p, g = np.asarray(weights), np.asarray(upstream)
    if p.ndim == 1:
        return softmax_jacobian(p) @ g
    return np.stack([full_jacobian(a, b) for a, b in zip(p, g, strict=True)])


def einsum_vjp(weights, upstream):
    p, g = np.asarray(weights), np.asarray(upstream)
    return p * g - p * np.einsum("...s,...s->...", p, g)[..., None]


def autograd(q, k, v, d_out, scale=None):
    q, k, v, d_out = (torch.as_tensor(np.asarray(x)).double() for x in (q, k, v, d_out))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out, _ = right_in_torch(*leaves, scale)
    return torch.autograd.grad((out * d_out).sum(), leaves)


def right_in_torch(q, k, v, scale):
    w = torch.softmax(q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale), -1)
    return w @ v, w


def einsum_gradients(q, k, v, d_out, scale=None):
    scale = np.shape(q)[-1] ** -0.5 if scale is None else scale
    p = softmax(einsum_scores(q, k, scale))
    ds = einsum_vjp(p, np.einsum("...td,...sd->...ts", d_out, v)) * scale
    return [
        np.einsum("...ts,...sd->...td", ds, k),
        np.einsum("...ts,...td->...sd", ds, q),
        np.einsum("...ts,...td->...sd", p, d_out),
    ]


def keys_for_each_row(widths, scaled, rng, n_keys=64, n=256):
    rows = []
    for d in widths:
        s = np.array([rng.normal(size=(n_keys, d)) @ rng.normal(size=d) for _ in range(n)])
        p = softmax(s * d**-0.5 if scaled else s)
        rows.append([right.row_entropy(p).mean(), 1 - (p**2).sum(1).mean()])
    return np.array(rows).T


def keys_for_each_width(widths, scaled, rng, n_keys=64, n=256):
    return declared._curve(widths, scaled, rng, n_keys, n)


def spawned_curve(widths, scaled, rng, n_keys=64, n=256):
    parts = [right.saturation_curve([d], scaled, child, n_keys, n) for d, child in zip(widths, rng.spawn(len(widths)), strict=True)]  # fmt: skip
    return np.array(parts)[..., 0].T


def square_maps(widths, scaled, rng, n_keys=64, n=256):
    """Maps of n_keys queries on n_keys keys until there are n rows."""
    entropy, sensitivity = [], []
    for d in widths:
        maps = -(-n // n_keys)
        q, k = rng.standard_normal((2, maps, n_keys, d))
        p = softmax(q @ k.mT / (d**0.5 if scaled else 1)).reshape(-1, n_keys)[:n]
        entropy.append(float(right.row_entropy(p).mean()))
        sensitivity.append(float(np.mean(1 - np.sum(p * p, -1))))
    return entropy, sensitivity


def torch_cosine(q, k, gain=1.0):
    q, k = (torch.as_tensor(np.asarray(x)).double() for x in (q, k))
    unit = torch.nn.functional.normalize
    return gain * unit(q, dim=-1) @ unit(k, dim=-1).mT


def divided_cosine(q, k, gain=1.0):
    q, k = np.asarray(q, dtype=float), np.asarray(k, dtype=float)
    sizes = np.sqrt((q**2).sum(-1))[..., :, None] * np.sqrt((k**2).sum(-1))[..., None, :]
    with np.errstate(all="ignore"):
        return np.where(sizes > 0, gain * (q @ k.swapaxes(-1, -2)) / sizes, 0)


def torch_cap(scores, cap):
    return cap * torch.tanh(torch.as_tensor(np.asarray(scores)) / cap)


def sigmoid_cap(scores, cap):
    with np.errstate(over="ignore"):
        return cap * (2 / (1 + np.exp(-2 * np.asarray(scores, dtype=float) / cap)) - 1)


RIGHT = {
    "score_std": [rademacher_std, uniform_std, looped_std, torch_std, seeded_std, spawned_std, diagonal_std, rms_of_signs],
    "row_entropy": [looped_entropy, masked_entropy, quiet_entropy, torch_entropy],
    "saturation_curve": [keys_for_each_row, keys_for_each_width, square_maps, spawned_curve],
    "scaled_scores": [einsum_scores, query_scaled_first, listed_scores, float32_scores],
    "scaled_dot_product_attention": [sdpa, own_softmax],
    "last_token_weights": [[0.248, 0.248, 0.503], (0.25, 0.25, 0.5), np.array([0.2483, 0.2483, 0.5035])],
    "last_token_output": [[1.759, 1.0], (1.76, 1), torch.tensor([1.7587, 1.0])],
    "softmax_vjp": [looped_vjp, full_jacobian, einsum_vjp],
    "attention_gradients": [autograd, einsum_gradients],
    "qk_norm_scores": [torch_cosine, divided_cosine],
    "soft_cap": [torch_cap, sigmoid_cap],
}  # fmt: skip
STATISTICAL = ("score_std", "saturation_curve")
EACH = [
    pytest.param(e, c, id=f"{e}-{getattr(c, '__name__', i)}")
    for e, cs in RIGHT.items()
    for i, c in enumerate(cs)
]


@pytest.mark.parametrize(("exercise_id", "candidate"), EACH)
def test_right_answers_pass_however_they_are_written(exercise_id, candidate):
    for seed in [0, 100] if candidate is looped_std else [0, *range(100, 105)]:
        verdict = judge(exercise_id, candidate, seed)
        assert verdict.passed, verdict.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exercise_id", "candidate"), [p for p in EACH if p.values[0] in STATISTICAL]
)
def test_chance_never_fails_a_right_answer(exercise_id, candidate):
    slow = candidate in (looped_std, keys_for_each_row, diagonal_std, spawned_curve)
    for seed in range(200, 205 if slow else 230):
        verdict = judge(exercise_id, candidate, seed, hidden=True)
        assert verdict.passed, (seed, judge(exercise_id, candidate, seed).message)


# ---- wrong answers that no list foresaw ---------------------------------------------------------


def another_seed(d_k, n, rng):
    return right.score_std(d_k, n, np.random.default_rng(42))


def of_the_global_generator(d_k, n, rng):
    return np.std(np.random.normal(size=(2, n, d_k)).prod(0).sum(-1))


def nearly_theory(d_k, n, rng):
    return math.sqrt(d_k) * 1.001


def one_key_for_all(d_k, n, rng):
    return (rng.normal(size=(n, d_k)) * rng.normal(size=d_k)).sum(1).std()


def curve_of_another_seed(widths, scaled, rng, n_keys=64, n=256):
    return right.saturation_curve(widths, scaled, np.random.default_rng(5), n_keys, n)


def falsy(q, k, v, scale=None):
    if not scale:
        scale = 1 / math.sqrt(np.shape(k)[-1])
    return sdpa(q, k, v, scale)


def width_of_values(q, k, v, scale=None):
    return sdpa(q, k, v, 1 / math.sqrt(np.shape(v)[-1]) if scale is None else scale)


def scaled_afterwards(q, k, v, scale=None):
    _, w = sdpa(q, k, v, 1.0)
    w = w / math.sqrt(np.shape(q)[-1]) if scale is None else w * scale
    return w @ torch.as_tensor(np.asarray(v)).double(), w


LIKE = [
    ("score_std", another_seed, "ignores_rng"),
    ("score_std", nearly_theory, "ignores_rng"),
    ("score_std", of_the_global_generator, "not_repeatable"),
    ("score_std", lambda d_k, n, rng: d_k**0.5, "theory_not_measured"),
    ("saturation_curve", curve_of_another_seed, "ignores_rng"),
    ("scaled_dot_product_attention", falsy, "weights_zero_taken_for_none"),
    ("scaled_dot_product_attention", width_of_values, "root_of_d_v"),
    ("scaled_dot_product_attention", scaled_afterwards, "scaled_after_softmax"),
    ("row_entropy", lambda w: -torch.xlogy(*[torch.as_tensor(np.asarray(w)).double()] * 2).sum(-1) / np.log(2), "in_bits"),
    ("softmax_vjp", lambda w, g: np.asarray(w) * np.asarray(g), "without_inner_sum"),
    ("attention_gradients", lambda q, k, v, d, scale=None: autograd(q, k, v, d, 1.0), "no_scale_at_all"),
    ("soft_cap", lambda s, cap: np.minimum(np.maximum(s, -cap), cap), "clipped"),
    ("last_token_weights", [24.8, 24.8, 50.3], "percentages"),
    ("last_token_weights", [0.503, 0.248, 0.248], "other_order"),
    ("last_token_weights", [0.21, 0.21, 0.58], "not_divided"),
    ("last_token_output", [1.0, 1.759], "other_order"),
    ("last_token_output", None, "not_written"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("exercise_id", "candidate", "name"), LIKE, ids=[f"{e}-{n}-{i}" for i, (e, _, n) in enumerate(LIKE)]
)  # fmt: skip
@pytest.mark.parametrize("hidden", [False, True])
def test_mistakes_are_named_however_they_are_written(exercise_id, candidate, name, hidden):
    verdict = judge(exercise_id, candidate, seed=3, hidden=hidden)
    assert not verdict.passed
    assert verdict.mistake == name, verdict.message


@pytest.mark.parametrize("seed", range(10))
def test_one_key_for_all_pairs_is_never_taken_for_chance(seed):
    assert not judge("score_std", one_key_for_all, seed).passed


@pytest.mark.parametrize("seed", range(30))
def test_a_rounded_measurement_is_not_said_to_ignore_rng(seed):
    def rounded(d_k, n, rng):
        return round(right.score_std(d_k, n, rng), 1)

    assert judge("score_std", rounded, seed).mistake != "ignores_rng"


def test_the_row_that_is_shown_is_the_one_that_is_wrong():
    """Rounding that is allowed in float32 does not draw the blame."""

    def third_row_wrong(q, k, scale=None):
        scores = np.array(right.scaled_scores(q, k, scale)) * (1 + 2e-5)
        scores[..., 2, :] += 1
        return scores.astype(np.asarray(q).dtype)

    exercise = find("scaled_scores")
    case = next(c for c in exercise.cases() if c.group == "float32")
    (wanted,), (wrong,) = collect([case], exercise.reference), collect([case], third_row_wrong)
    assert find_fault(exercise, case, wrong, wanted).sentence.startswith("row 2 of yours")


def test_the_wrong_part_is_named():
    def dk_off(q, k, v, d_out, scale=None):
        dq, dk, dv = right.attention_gradients(q, k, v, d_out, scale)
        return dq, 1.1 * dk, dv

    assert "dk: " in judge("attention_gradients", dk_off).message


# ---- the formulas and the text ------------------------------------------------------------------


@pytest.mark.parametrize("scale", [None, 0.0, 0.3, 2.0])
@pytest.mark.parametrize("front", [(), (2,), (2, 3)])
def test_gradients_agree_with_finite_differences(scale, front):
    draw = np.random.default_rng(1)
    shapes = ((4, 3), (5, 3), (5, 2), (4, 2))
    *inputs, d_out = (draw.normal(size=(*front, *shape)) for shape in shapes)
    for number, gradient in enumerate(right.attention_gradients(*inputs, d_out, scale)):
        for index in np.ndindex(*inputs[number].shape):
            values = []
            for step in (1e-5, -1e-5):
                nudged = [x.copy() for x in inputs]
                nudged[number][index] += step
                out, _ = right.scaled_dot_product_attention(*nudged, scale)
                values.append(np.sum(out * d_out))
            assert (values[0] - values[1]) / 2e-5 == pytest.approx(gradient[index], abs=1e-8)


def test_the_worked_example():
    np.testing.assert_allclose(right.last_token_weights, [0.248, 0.248, 0.503], atol=6e-4)
    np.testing.assert_allclose(right.last_token_output, [1.759, 1.0], atol=5e-4)


def test_the_numbers_of_the_text():
    assert right.score_std(128, 40000, np.random.default_rng(0)) == pytest.approx(11.31, abs=0.2)
    for scaled, wanted in ((False, 0.21), (True, 0.96)):
        _, (sensitivity,) = right.saturation_curve([128], scaled, np.random.default_rng(0), n=2000)
        assert sensitivity == pytest.approx(wanted, abs=0.02)
    for d_k, mean, share, settled in (
        (8, 2.45, 0.23, 0.01),
        (128, 5.88, 0.47, 0.49),
        (2048, 7.71, 0.86, 0.86),
    ):
        draw = np.random.default_rng(33)
        q, k, v, g = (draw.normal(size=s) for s in ((1000, d_k), (64, d_k), (64, 16), (1000, 16)))
        lengths = np.linalg.norm(right.attention_gradients(q, k, v, g, 1.0)[0], axis=1)
        weights = right.scaled_dot_product_attention(q, k, v, 1.0)[1]
        assert lengths.mean() == pytest.approx(mean, abs=0.01)
        assert np.sort(lengths)[-100:].sum() / lengths.sum() == pytest.approx(share, abs=0.01)
        assert np.mean(1 - (weights**2).sum(-1) < 0.1) == pytest.approx(settled, abs=0.01)
