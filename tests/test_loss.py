"""Cross entropy in chunks."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from depthstress import loss
from depthstress.loss import summed_cross_entropy


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("chunk", [1, 150, 2**24])
def test_chunks_give_the_loss_and_gradient_of_all_logits(monkeypatch, chunk, bias):
    monkeypatch.setitem(loss.CHUNK, "cpu", chunk)
    torch.manual_seed(0)
    head = torch.nn.Linear(16, 50, bias=bias).requires_grad_(False)
    labels = torch.randint(50, (11,))
    results = []
    for function in (summed_cross_entropy, lambda hidden, head, labels: cross_entropy(head(hidden), labels, reduction="sum")):
        torch.manual_seed(1)
        hidden = torch.randn(11, 16, requires_grad=True)
        total = function(hidden, head, labels)
        (total * 0.25).backward()
        results.append((total.detach(), hidden.grad))
    torch.testing.assert_close(results[0], results[1])


def test_a_label_that_seems_impossible_has_a_finite_loss():
    head = torch.nn.Linear(1, 2, bias=False)
    head.weight.data = torch.tensor([[300.0], [-300.0]])
    head.requires_grad_(False)
    hidden = torch.ones(1, 1, requires_grad=True)
    total = summed_cross_entropy(hidden, head, torch.tensor([1]))
    total.backward()
    assert total.item() == 600.0
    assert hidden.grad.item() == 600.0


@pytest.mark.parametrize("chunk", [1, 150, 2**24])
def test_a_premature_end_is_punished_by_its_unlikelihood(monkeypatch, chunk):
    monkeypatch.setitem(loss.CHUNK, "cpu", chunk)
    torch.manual_seed(0)
    head = torch.nn.Linear(16, 50, bias=False).requires_grad_(False)
    labels, punished, end = torch.randint(50, (11,)), torch.tensor([0.0, 2.0] * 5 + [0.0]), 7

    def plain(hidden):
        logits = head(hidden)
        unlikelihood = -torch.log1p(-logits.softmax(-1)[:, end])
        return cross_entropy(logits, labels, reduction="sum") + (punished * unlikelihood).sum()

    results = []
    for function in (lambda hidden: summed_cross_entropy(hidden, head, labels, end, punished), plain):
        torch.manual_seed(1)
        hidden = torch.randn(11, 16, requires_grad=True)
        total = function(hidden)
        (total * 0.25).backward()
        results.append((total.detach(), hidden.grad))
    torch.testing.assert_close(results[0], results[1])
