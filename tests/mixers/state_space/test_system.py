"""Discretised systems against dense matrices, and every kernel against its recurrence."""

import pytest
import torch

from lengthwise.mixers import Layout
from lengthwise.mixers.state_space import hippo
from lengthwise.mixers.state_space.system import convolve, delay, quotient

from .. import made

SYSTEMS = {
    "s4": ("s4", {}),
    "s4d lin": ("s4d", {"initial": "lin"}),
    "s4d inv": ("s4d", {"initial": "inv"}),
    "s4d legs": ("s4d", {"initial": "legs"}),
    "s4d lin bilinear": ("s4d", {"initial": "lin", "discretisation": "bilinear"}),
    "s4d inv bilinear": ("s4d", {"initial": "inv", "discretisation": "bilinear"}),
    "s4d legs bilinear": ("s4d", {"initial": "legs", "discretisation": "bilinear"}),
}


def make(name, kind=torch.float64, width=3, state=64, **more):
    torch.manual_seed(0)
    mixer, options = SYSTEMS[name]
    return made.mixer(mixer, width=width, state=state, **options, **more).to(kind)


def whole(z):
    """The half that is kept, and its conjugates."""
    return torch.cat([z, z.conj()], -1)


def dense(layer):
    """A (D,N,N), B and C (D,N), complex, as the layer has learned them."""
    Λ = torch.complex(-layer.decay.exp(), layer.frequency)
    B, C = (torch.view_as_complex(part) for part in (layer.B, layer.C))
    A = whole(Λ).diag_embed()
    if hasattr(layer, "P"):
        P = whole(torch.view_as_complex(layer.P))
        A = A - P[:, :, None] * P.conj()[:, None]
    return A, whole(B), whole(C)


def sampled(layer):
    """Ā and B̄."""
    A, B, _ = dense(layer)
    Δ = layer.log_step.exp()[:, None, None]
    one = torch.eye(A.shape[-1], dtype=A.dtype)
    if getattr(layer, "discretisation", "bilinear") == "bilinear":
        back = torch.linalg.inv(one - Δ / 2 * A)
        return back @ (one + Δ / 2 * A), (back @ (Δ * B[..., None]))[..., 0]
    Ā = torch.linalg.matrix_exp(Δ * A)
    return Ā, torch.linalg.solve(A, (Ā - one) @ B[..., None])[..., 0]


def powers(layer, T):
    Ā, x = sampled(layer)
    C, K = dense(layer)[2], []
    for _ in range(T):
        K.append((C * x).sum(-1))
        x = (Ā @ x[..., None])[..., 0]
    return torch.stack(K, -1)


@pytest.mark.parametrize("N", [2, 8, 64])
def test_s4_begins_as_hippo_legs(N):
    """In the coordinates of the eigenvectors, found here anew, A is the matrix of the definition."""
    Λ, P, B = hippo.dplr(N)
    n = torch.arange(N, dtype=torch.float64)
    root = (2 * n + 1).sqrt()
    wanted = -(root[:, None] * root).tril(-1) - (n + 1).diag()
    low = (n + 0.5).sqrt()
    values, V = torch.linalg.eig(wanted + low[:, None] * low)
    order = [int((values - z).abs().argmin()) for z in whole(Λ)]
    assert sorted(order) == list(range(N))
    # Eigenvectors have a free phase, which the low-rank part settles.
    V = V[:, order] / V[:, order].norm(dim=0)
    phase = (V.mH @ low.to(V.dtype)) / whole(P)
    V = V * phase
    torch.testing.assert_close(phase.abs(), torch.ones(N, dtype=torch.float64), rtol=1e-9, atol=1e-9)
    A = whole(Λ).diag() - whole(P)[:, None] * whole(P).conj()
    torch.testing.assert_close(V @ A @ V.mH, wanted.to(V.dtype), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(V @ whole(B), root.to(V.dtype), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_kernel_is_that_of_dense_matrices(name):
    layer = make(name)
    with torch.no_grad():
        K = powers(layer, 50)
        assert K.imag.abs().max() < 1e-10 * K.abs().max()
        torch.testing.assert_close(layer.discretise().kernel(50), K.real, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(("kind", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_the_convolution_is_the_recurrence(name, kind, bound):
    """Outputs and last state, from zero and after a state, at lengths with awkward transforms."""
    layer = make(name, kind)
    system = layer.discretise()
    for T in (1, 2, 31, 500):
        u, x0 = torch.randn(3, 2, T, dtype=kind), torch.randn(3, 2, 32, dtype=system.a.dtype)
        for start in (None, x0):
            y, end = system.run(u, start)
            x, steps = torch.zeros_like(x0) if start is None else start, []
            x = x.transpose(0, 1)
            for t in range(T):
                y_t, x = system.step(u[..., t].T, x)
                steps.append(y_t.T)
            wanted, x = torch.stack(steps, -1), x.transpose(0, 1)
            assert (y - wanted).abs().max() <= bound * max(1, wanted.abs().max())
            assert (end - x).abs().max() <= bound * max(1, x.abs().max())


def test_the_kernel_of_s4_has_the_published_transform():
    """Cut off at L, at the roots of unity: C̃ (2/Δ (1-z)/(1+z) - A)^-1 B · 2/(1+z), with C̃ = C (1 - Ā^L)."""
    layer, L = make("s4", state=8), 16
    with torch.no_grad():
        A, B, C = dense(layer)
        Ā, _ = sampled(layer)
        one = torch.eye(8, dtype=A.dtype)
        C = (C[:, None] @ (one - torch.linalg.matrix_power(Ā, L)))[:, 0]
        z = torch.exp(-2j * torch.pi * torch.arange(L, dtype=torch.float64) / L)
        Δ = layer.log_step.exp()
        found = torch.fft.fft(layer.discretise().kernel(L).to(A.dtype))
        for d in range(3):
            for k, w in enumerate(z):
                if k == L // 2:
                    continue  # z = -1 is the formula's pole
                middle = torch.linalg.solve(2 / Δ[d] * (1 - w) / (1 + w) * one - A[d], B[d])
                torch.testing.assert_close(found[d, k], C[d] @ middle * 2 / (1 + w), rtol=1e-8, atol=1e-10)


def test_series():
    g = torch.Generator().manual_seed(0)
    for T in (1, 2, 7, 9, 33, 40, 41, 43, 97, 300):
        u, k = torch.randn(3, 2, T, dtype=torch.float64, generator=g), torch.randn(3, T, generator=g).double()
        toeplitz = torch.stack([torch.nn.functional.pad(k, (t, 0))[..., :T] for t in range(T)], -1)
        k = k[:, None]
        torch.testing.assert_close(convolve(u, k), u @ toeplitz.mT)
        one = torch.zeros(T, dtype=torch.float64)
        one[0] = 1
        # A quotient by it must stay small: a transform's error is that of the largest coefficient.
        d = one + 0.3 * delay(k * 0.7 ** torch.arange(T))
        torch.testing.assert_close(convolve(quotient(u, d), d), u, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SYSTEMS)
def test_gradients(name):
    """Of every parameter and the input, through the convolution."""
    layer = make(name, width=2, state=4)
    names = [n for n, _ in layer.named_parameters() if not n.startswith("output")]
    given = [layer.get_parameter(n).detach().clone().requires_grad_() for n in names]
    x = torch.randn(1, 5, 2, dtype=torch.float64, requires_grad=True)

    def run(x, *values):
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,), {"layout": Layout.of(x)})[
            0
        ]

    assert torch.autograd.gradcheck(run, (x, *given))


@pytest.mark.parametrize("name", SYSTEMS)
def test_stays_finite_and_bounded_far_out(name):
    """T = 10,000, however the parameters were learned: each state is dissipative."""
    layer = make(name, torch.float32, state=16)
    for drawn in (False, True):
        if drawn:
            for p in layer.parameters():
                torch.nn.init.normal_(p)
        with torch.no_grad():
            x = torch.randn(1, 10_000, 3)
            y, state = layer(x, layout=Layout.of(x))
            K = layer.discretise().kernel(10_000)
        assert y.isfinite().all()
        assert state.x.isfinite().all()
        # Later thousands are no louder than the kernel's whole weight allows.
        assert K[:, 5000:].abs().max() <= K[:, :5000].abs().max()
        assert y[0, 5000:].abs().max() <= 3 * y[0, :5000].abs().max()


def test_a_derivative_forward():
    """Of the whole layer, which without a map behind it is linear."""
    layer, u = make("s4", state=4, output="none"), torch.randn(2, 20, 3, dtype=torch.float64)
    y, slope = torch.func.jvp(lambda u: layer(u, layout=Layout.of(u))[0], (u,), (u,))
    torch.testing.assert_close(slope, y)


def test_what_it_returns_is_its_own():
    layer, u = make("s4", state=4, output="none"), torch.randn(1, 20, 3, dtype=torch.float64, requires_grad=True)
    layer(u, layout=Layout.of(u))[0].add_(1).sum().backward()
