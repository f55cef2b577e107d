"""How many groups: on clouds whose number is known, and on those which are one, however they are shaped."""

import math

import pytest
import torch

from lengthwise.insight.k_means import find_groups, principal_components


def cloud(k: int, width: int, radii=(1.0,), sizes=(300,), seed: int = 0, apart: float = 9.0):
    """Gaussian groups on a ring, neighbours `apart` from each other, in a random plane; and which point is of which."""
    draw = torch.Generator().manual_seed(seed)
    angle = torch.arange(k) * 2 * math.pi / k
    ring = torch.stack([angle.cos(), angle.sin()], 1) * (apart / (2 * math.sin(math.pi / k)) if k > 1 else 0)
    plane = torch.linalg.qr(torch.randn(width, 2, generator=draw)).Q
    members = torch.cat([torch.full((sizes[i % len(sizes)],), i) for i in range(k)])
    radius = torch.tensor(radii)[members % len(radii)][:, None]
    return ring[members] @ plane.T + radius * torch.randn(len(members), width, generator=draw) + 5, members


@pytest.mark.parametrize("width", [2, pytest.param(16, marks=pytest.mark.slow), 64])
@pytest.mark.parametrize("k", [1, 2, 3, *(pytest.param(k, marks=pytest.mark.slow) for k in (5, 7)), 12])
@pytest.mark.parametrize(("radii", "sizes"), [((1.0,), (300,)), ((0.3, 1.0), (400, 100)), ((1.0, 0.6, 0.8), (60, 300))])
def test_groups_are_counted(k, width, radii, sizes):
    points, members = cloud(k, width, radii, sizes)
    found = find_groups(points)
    assert found.count == k, found.profile
    for group in range(k):
        own = found.members[members == group]
        assert (own == own.mode().values).float().mean() > 0.99
    assert found.members.bincount().tolist() == sorted(found.members.bincount().tolist(), reverse=True)
    centres = torch.stack([points[found.members == i].mean(0) for i in range(k)])
    torch.testing.assert_close(found.centres, centres)


def single() -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    even = torch.rand(1000, 3, generator=draw)
    noise = torch.randn(1000, 64, generator=draw)
    angle = 2 * math.pi * even[:, :1]
    return {
        "line": even[:, :1],
        "square": even[:, :2],
        "cube": even,
        "line in noise": torch.cat([10 * even[:, :1], noise[:, :30]], 1),
        "ball": noise,
        "long ball": noise * torch.exp(-torch.arange(64) / 4),
        "ring": torch.cat([angle.cos(), angle.sin()], 1),
        "one-sided": -even[:, :1].log(),
        "few": noise[:60],
        "very few": noise[:3],
        "few and far": torch.eye(4).repeat(3, 1),
        "one point": torch.zeros(1, 8),
        "one point again and again": torch.ones(100, 8),
    }


@pytest.mark.parametrize("name", list(single()))
def test_one_group_is_one(name):
    found = find_groups(single()[name])
    assert found.count == 1, found.profile
    assert found.members.tolist() == [0] * len(single()[name])


def test_groups_of_groups_are_counted_coarsely():
    """A trained network's clusters have grains: the outputs for each few tokens. These are no clusters of their own."""
    points, members = cloud(5, 16, radii=(0.1,))
    grains = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    found = find_groups(points + grains[torch.arange(len(points)) % 4])
    assert found.count == 5
    assert [len(members[found.members == i].unique()) for i in range(5)] == [1] * 5


def test_grains_on_one_side_alone():
    """As in PARITY: one cluster is tight, the other falls apart at a third of the distance between them."""
    points, members = cloud(2, 16, radii=(0.2,), apart=15.0)
    grains = torch.nn.functional.one_hot(torch.arange(len(points)) % 3, 16) * 3.5
    found = find_groups(points + grains * (members == 1)[:, None])
    fall = {k: fall for k, fall, _ in found.profile}
    assert fall[4] > fall[2], "the finer count has the greater fall"
    assert found.count == 2


@pytest.mark.parametrize("k", [2, 3, 4, 6])
def test_groups_in_a_row(k):
    points = 10.0 * (torch.arange(k * 100) % k)[:, None] + torch.randn(
        k * 100, 1, generator=torch.Generator().manual_seed(0)
    )
    assert find_groups(points).count == k


def test_groups_without_any_spread():
    points = torch.eye(6).repeat(40, 1)
    found = find_groups(points)
    assert found.count == 6
    assert found.profile[-1][1] == math.inf


def test_no_more_than_asked_for():
    points, _ = cloud(7, 8)
    assert find_groups(points, most=7).count == 7
    assert find_groups(points, most=5).count == 1, "seven are no five"


def test_principal_axes():
    draw = torch.Generator().manual_seed(0)
    points = torch.randn(5000, 3, generator=draw) * torch.tensor([1.0, 5.0, 2.0]) + 7
    flat, shares = principal_components(points, 2)
    assert shares.tolist() == pytest.approx([25 / 30, 4 / 30], abs=0.02)
    torch.testing.assert_close(flat.var(0, correction=0), shares * points.double().var(0, correction=0).sum())
    assert flat.mean(0).abs().max() < 1e-9
    assert abs(float((flat[:, 0] * (points[:, 1].double() - 7)).mean())) == pytest.approx(25, rel=0.05)
