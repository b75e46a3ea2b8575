"""Rows as a prefix tree."""

import torch

from depthstress.packing import pack


def test_every_distinct_beginning_is_one_node_and_nothing_is_padding():
    packed = pack([([5, 6, 7], [8, 0]), ([5, 6], [9, 9, 0]), ([4], [0])])
    assert packed.tokens.tolist() == [[5, 6, 7, 8, 9, 9, 4]]
    assert packed.positions.tolist() == [[0, 1, 2, 3, 2, 3, 0]]
    assert packed.nodes.tolist() == [[0, 1, 2, 3], [0, 1, 4, 5], [6, 0, 0, 0]]
    assert packed.first.tolist() == [0, 1, 2, 3, 6, 7, 8]
    assert packed.repeats.tolist() == [4, 5]


def test_labels_are_the_target_and_its_end_alone():
    packed = pack([([5, 6, 7], [8, 0]), ([5, 6], [9, 9, 0]), ([4], [0])])
    assert packed.labelled.tolist() == [2, 3, 1, 4, 5, 6]  # a prompt's last token, then the target's but its last
    assert packed.labels.tolist() == [8, 0, 9, 9, 0, 0]


def test_equal_rows_share_all_nodes_and_keep_their_labels():
    packed = pack([([5, 6], [7, 0])] * 3)
    assert packed.tokens.tolist() == [[5, 6, 7]]
    assert packed.nodes.tolist() == [[0, 1, 2]] * 3
    assert packed.labelled.tolist() == [1, 2] * 3 and packed.labels.tolist() == [7, 0] * 3


def test_first_and_repeats_are_all_places_but_the_padding():
    packed = pack([([1, 2], [3, 0]), ([1], [0]), ([1, 2], [4, 0])])
    places = torch.cat([packed.first, packed.repeats]).sort().values
    assert places.tolist() == [0, 1, 2, 3, 6, 7, 8]
