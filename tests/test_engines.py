"""Engines on tiny models: greedy texts are transformers' own, whatever shares a step."""

import string
from dataclasses import dataclass

import pytest
import torch

from conftest import COMMITTED
from depthstress.engines import Request
from depthstress.engines.flat import Frozen, GatedMlp, flattened
from depthstress.engines.hf import HfEngine
from depthstress.engines.slots import Slots
from depthstress.formats import FORMATS
from depthstress.models import load_base
from depthstress.runs import read_examples
from depthstress.suites import load_model, load_suite

COMMON = "Write it.\n"
PROMPTS = [
    COMMON,
    COMMON + "PUSH 5",
    COMMON + "a much longer prompt than the others\nwith a line",
    COMMON + "x",
    COMMON + "PUSH 5",
    COMMON * 3,
]


@pytest.fixture(params=["tiny_base", "tiny_qwen3"])
def base(request):
    base = request.getfixturevalue(request.param)
    letters = base.tokens(string.ascii_letters + string.digits)
    for name, weight in base.model.named_parameters():  # small random weights repeat one odd byte: let them write varied letters
        if weight.dim() > 1:
            weight.mul_(15)
        if name == "lm_head.weight":
            weight[[token for token in range(len(weight)) if token not in (*letters, base.eos)]] = 0
    return base


def tokens_of_transformers(base, model, prompt, limit):
    ids = torch.tensor([base.tokens(prompt)])
    with torch.inference_mode():
        output = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=limit, do_sample=False,
            eos_token_id=list(base.stops), pad_token_id=base.eos,
        )  # fmt: skip
    return output[0, ids.shape[1] :].tolist()


def expected(base, prompts, limit, model=None):
    """The texts as transformers writes them, one prompt at a time: (text, end, tokens)."""
    texts = []
    for prompt in prompts:
        tokens = tokens_of_transformers(base, model or base.model, prompt, limit)
        end = next((n for n, token in enumerate(tokens) if token in base.stops), None)
        text = base.tokenizer.decode(tokens[:end], skip_special_tokens=True, clean_up_tokenization_spaces=False)
        texts.append((text, "limit" if end is None else "eos", len(tokens[:end])))
    return texts


def written(base, requests, batch_size=4, model=None, **options):
    made = dict(HfEngine(base, model or base.model, batch_size, **options).generate(requests))
    assert sorted(made) == list(range(len(requests)))
    return [(made[n].text, made[n].end, made[n].tokens) for n in range(len(requests))]


def test_the_tiny_models_texts_differ(base):
    """Or the tests below would show little."""
    assert len({text for text, _, _ in expected(base, PROMPTS, 12)}) >= 4


@pytest.mark.parametrize("batch_size", [1, 2, 4, 32])
@pytest.mark.parametrize("share_prefix", [True, False])
@pytest.mark.parametrize("joining_tokens", [1, 1000])
def test_texts_are_those_of_transformers(base, batch_size, share_prefix, joining_tokens):
    requests = [Request(prompt, 12) for prompt in PROMPTS]
    made = written(base, requests, batch_size, share_prefix=share_prefix, joining_tokens=joining_tokens)
    assert made == expected(base, PROMPTS, 12)


def test_rows_of_different_lengths_leave_and_join(base):
    limits = [1, 15, 3, 9, 2, 6]
    made = written(base, [Request(prompt, limit) for prompt, limit in zip(PROMPTS, limits)], batch_size=3)
    assert made == [expected(base, [prompt], limit)[0] for prompt, limit in zip(PROMPTS, limits)]


def test_every_stop_token_ends_a_text(base):
    seen = tokens_of_transformers(base, base.model, PROMPTS[1], 12)
    early = seen[len(seen) // 2]
    base.stops = (early, base.eos)
    made = written(base, [Request(prompt, 12) for prompt in PROMPTS])
    assert made == expected(base, PROMPTS, 12)
    assert made[1][1:] == ("eos", seen.index(early))


def test_identical_prompts_and_one_prompt_alone(base):
    (alone,) = written(base, [Request("PUSH 5", 12)])
    assert written(base, [Request("PUSH 5", 12)] * 5, batch_size=2) == [alone] * 5
    assert [alone] == expected(base, ["PUSH 5"], 12)


def test_a_stop_string_ends_a_text_and_is_kept(base):
    for prompt, (whole, _, _) in zip(PROMPTS, expected(base, PROMPTS, 12)):
        stop = whole[len(whole) // 2 :][:2]
        (text, end, tokens), other = written(base, [Request(prompt, 12, stop=stop), Request(PROMPTS[2], 12, stop="never written")])
        assert (text, end) == (whole[: whole.index(stop) + len(stop)], "stop")
        assert tokens == len(text)  # a token is a letter here
        assert other == expected(base, [PROMPTS[2]], 12)[0]


def test_no_requests_no_texts_and_no_room_no_text(base):
    assert list(HfEngine(base, base.model, 4).generate([])) == []
    assert written(base, [Request("x", 0), Request("x", 3)])[0] == ("", "limit", 0)


def test_an_empty_prompt_is_refused(base):
    with pytest.raises(ValueError, match="request 1: the prompt has no tokens"):
        list(HfEngine(base, base.model, 4).generate([Request("x", 3), Request("", 3)]))


def test_the_model_is_left_as_it_was(base):
    before = base.model.config._attn_implementation
    texts = HfEngine(base, base.model, 4).generate([Request(prompt, 5) for prompt in PROMPTS])
    next(texts)  # also while texts are being written
    assert base.model.config._attn_implementation == before
    assert expected(base, PROMPTS[:1], 5)[0] in written(base, [Request(prompt, 5) for prompt in PROMPTS])


@dataclass
class Shapes:
    """A constraint for tests: the text must have one of these shapes, where "?" is any small letter."""

    base: object
    shapes: tuple[str, ...]
    forces: bool = True
    ends: bool = True  # whether `over` comes with the last letter, or with the end token

    def start(self):
        return ShapesMatcher(self)


@dataclass
class ShapesMatcher:
    shape: Shapes
    text: str = ""
    over: bool = False

    def legal(self, text) -> list[int]:
        base, legal = self.shape.base, set()
        for shape in self.shape.shapes:
            if len(shape) >= len(text) and all(b in ("?", a) for a, b in zip(text, shape)):
                if len(shape) == len(text):
                    legal.add(base.eos)
                else:
                    letters = "abcdefghijklmnopqrstuvwxyz" if shape[len(text)] == "?" else shape[len(text)]
                    legal.update(base.tokens(letters))
        return sorted(legal)

    def allow(self, logits):
        keep = logits[self.legal(self.text)].clone()
        logits.fill_(float("-inf"))[self.legal(self.text)] = keep

    def accept(self, token):
        assert token in self.legal(self.text) and not self.over
        self.text += "" if token == self.shape.base.eos else self.shape.base.tokenizer.decode([token])
        self.over = token == self.shape.base.eos or (self.shape.ends and self.legal(self.text) == [self.shape.base.eos])

    def forced(self):
        tokens, text = [], self.text
        while self.shape.forces and not self.over and len(legal := self.legal(text)) == 1 and legal != [self.shape.base.eos]:
            tokens += legal
            text += self.shape.base.tokenizer.decode(legal)
        return tokens


SHAPES = ("PUSH_TEXT ??;REVERSE", "PUSH_NUMBER ?;ADD", "?")


def masked(base, prompt, constraint, limit):
    """Plain masking: the model is run anew for every token."""
    ids, matcher = base.tokens(prompt), constraint.start()
    start = len(ids)
    while len(ids) - start < limit:
        with torch.inference_mode():
            logits = base.model(torch.tensor([ids])).logits[0, -1]
            matcher.allow(logits)
        token = int(logits.argmax())
        if token in base.stops:
            break
        matcher.accept(token)
        ids.append(token)
        if matcher.over:
            break
    return base.tokenizer.decode(ids[start:])


@pytest.mark.parametrize("limit", [7, 40])
@pytest.mark.parametrize("forces", [True, False])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("shapes", [SHAPES, SHAPES[:2], SHAPES[:1]])
def test_constrained_texts_are_those_of_plain_masking(base, limit, forces, ends, shapes):
    constraint = Shapes(base, shapes, forces, ends)
    requests = [Request(prompt, limit, constraint if n != 3 else None) for n, prompt in enumerate(PROMPTS)]
    made = written(base, requests)
    for n, prompt in enumerate(PROMPTS):
        if n == 3:
            assert made[n] == expected(base, [prompt], limit)[0]
        else:
            assert made[n][0] == masked(base, prompt, constraint, limit)
            assert made[n][1] == ("eos" if len(made[n][0]) < limit else "limit")


def test_forced_tokens_cost_no_step(base):
    steps = []
    base.model.register_forward_pre_hook(lambda module, arguments: steps.append(1))
    free = written(base, [Request(PROMPTS[1], 40, Shapes(base, SHAPES[:1], forces=False))])
    unforced = len(steps)
    steps.clear()
    assert written(base, [Request(PROMPTS[1], 40, Shapes(base, SHAPES[:1]))]) == free
    assert (unforced, len(steps)) == (len(SHAPES[0]), 2)  # the two letters that are free


def test_forced_text_is_stopped_by_a_stop_string(base):
    (made,) = written(base, [Request(PROMPTS[1], 40, Shapes(base, SHAPES[:1]), stop="_TE")])
    assert made == ("PUSH_TE", "stop", 7)


def test_a_constraint_that_allows_nothing_is_an_error(base):
    class Nothing(ShapesMatcher):
        def legal(self, text):
            return []

    constraint = Shapes(base, SHAPES)
    constraint.start = lambda: Nothing(constraint)
    with pytest.raises(ValueError, match="allows no token at all"):
        written(base, [Request("x", 5, constraint)])


def test_rows_that_do_not_fit_into_memory_wait(base, monkeypatch):
    from depthstress.engines import hf

    a_token = hf.bytes_a_token(base.model)
    assert a_token == 2 * 2 * 2 * 8 * 4  # keys and values, layers, key heads, dimension, bytes
    longest = max(len(base.tokens(prompt)) for prompt in PROMPTS) + 12
    monkeypatch.setattr(hf, "free_bytes", lambda device: 5 * longest * a_token)  # half of it has room for two
    reference, batches = expected(base, PROMPTS, 12), []
    base.model.register_forward_pre_hook(lambda module, arguments, named: batches.append(len(named["logits_to_keep"])), with_kwargs=True)
    assert written(base, [Request(prompt, 12) for prompt in PROMPTS], 32) == reference
    assert max(batches) == 2


def adapted(base):
    """The base with a LoRA adapter that changes what it writes."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    model = get_peft_model(base.model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False))
    return model.requires_grad_(False).eval()


def test_a_merged_adapter_writes_the_same_and_is_taken_out_again(base):
    plain = expected(base, PROMPTS, 12)
    model = adapted(base)
    weights = {name: weight.clone() for name, weight in model.named_parameters()}
    reference = expected(base, PROMPTS, 12, model)
    assert reference != plain
    requests = [Request(prompt, 12) for prompt in PROMPTS]
    assert written(base, requests, model=model) == reference  # as it is
    with flattened(model) as flat:
        assert not any("lora" in name for name, _ in flat.named_parameters())
        assert written(base, requests, model=flat) == reference
    after = dict(model.named_parameters())
    assert after.keys() == weights.keys()
    assert all(torch.equal(after[name], weight) for name, weight in weights.items())
    assert expected(base, PROMPTS, 12, model) == reference
    base.model = model.unload()
    assert expected(base, PROMPTS, 12) == plain


def test_a_merged_adapter_is_taken_out_when_interrupted(tiny_base):
    model = adapted(tiny_base)
    names = [name for name, _ in model.named_modules()]
    with pytest.raises(KeyboardInterrupt), flattened(model):
        raise KeyboardInterrupt
    assert [name for name, _ in model.named_modules()] == names


@pytest.mark.parametrize("rows", [1, 40, 300])
def test_a_flat_model_computes_the_same(base, rows):
    ids = torch.randint(len(base.tokenizer), (1, rows), generator=torch.Generator().manual_seed(rows))
    modules = dict(base.model.named_modules())
    with torch.inference_mode():
        logits = base.model(ids).logits
        with flattened(base.model) as flat:
            kinds = [type(module) for module in flat.modules()]
            layers = base.model.config.num_hidden_layers
            assert (kinds.count(GatedMlp), kinds.count(Frozen), kinds.count(torch.nn.Linear)) == (layers, 4 * layers + 1, 0)
            assert torch.allclose(flat(ids).logits, logits, atol=1e-4, rtol=1e-4)
    assert dict(base.model.named_modules()) == modules


def test_a_prompt_takes_over_what_it_has_in_common_with_a_running_one(base, monkeypatch):
    ran = []
    run = Slots.run
    monkeypatch.setattr(Slots, "run", lambda self, new, cached: ran.append(sum(map(len, new))) or run(self, new, cached))
    prompts = [COMMON + "PUSH 5" + tail for tail in ("", "6", "67", "68", "x", "67")]
    requests = [Request(prompt, 2) for prompt in prompts]
    assert written(base, requests) == expected(base, prompts, 2)
    shared, ran[:] = sum(ran), []
    assert written(base, requests, share_prefix=False) == expected(base, prompts, 2)
    saved = sum(ran) - shared
    assert saved >= 4 * len(base.tokens(COMMON + "PUSH"))  # five of the six begin like another


@pytest.mark.slow
def test_the_bundled_model_writes_what_transformers_writes():
    """On prompts of the committed data; transformers in one padded batch, as lm-evaluation-harness runs it."""
    suite = load_suite("local")
    base = load_base(load_model("smollm2-135m").model_copy(update={"weights": "fp32"}))
    examples = [example for split in suite.splits for example in read_examples(COMMITTED / "data" / "s101" / f"{split.name}.jsonl")[:3]]
    prompts = [FORMATS["program_stack"].prompt(example) for example in examples]
    rows = [base.tokens(prompt) for prompt in prompts]
    width = max(map(len, rows))
    with torch.inference_mode():
        output = base.model.generate(
            input_ids=torch.tensor([[base.eos] * (width - len(row)) + row for row in rows]),
            attention_mask=torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows]),
            max_new_tokens=32, do_sample=False, eos_token_id=list(base.stops), pad_token_id=base.eos,
        )  # fmt: skip
    reference = base.tokenizer.batch_decode(output[:, width:], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    made = written(base, [Request(prompt, 32) for prompt in prompts], batch_size=8)
    assert len(prompts) == 27
    assert [text for text, _, _ in made] == reference
