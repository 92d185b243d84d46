"""Random tokenizers and texts, and what the library `tokenizers` makes of them.

    python3 spec/peer/tokenizers.py FOLDER [COUNT [SEED]]

writes FOLDER/N.json (a tokenizer) and FOLDER/N.cases: for each text a line of JSON with the text,
a second text or null, the ids, and what decode gives; spec/peer/tokenizers.lua compares.
"""
import json
import os
import random
import sys
import unicodedata

if sys.path and os.path.dirname(os.path.abspath(__file__)) == os.path.abspath(sys.path[0]):
    del sys.path[0]  # this file has the library's name
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import AddedToken, Regex

SOME = [
    "hello world", "The quick brown fox", "It's we'll I'VE don't", "1234567890 3.14", "def f(x):\n\treturn x",
    "你好，世界！", "日本語のテキスト", "한국어", "Привет мир", "مرحبا", "ไทย", "नमस्ते", "Ελληνικά", "ＡＢＣ ①②½",
    "😀👍🏽👨‍👩‍👧", "e\u0301a\u0308\u0323 \u1e9b\u0323", "ﬁ ﬀ ™ ㎏", "İstanbul ẞ ſ K", "  spaces   \t\t \n\n\r\n ", "a\u00a0b\u2003c\u3000d",
    "\u0000\u0001\u007f\u0085\ufeff\u200b\u200d\u2028", "<s> </s> [MASK] <unk> <extra>", "...!!??--__##", "▁x▁▁y", "don't stop", "各位 各",
]

def old(c):
    """Characters up to Unicode 15.0, or of an older one that Python has: the library's parts know different ones."""
    return unicodedata.category(chr(c)) not in ("Cn", "Cs") and c != 0x1171E and unicodedata.unidata_version < "15.1"


ALPHABET = list("abcdeXYZ 019.,'!?-_#\n\t") + list("éß你好世界の한글🙂🏽\u0301\u0323ﬁ½Жαא")


def text(rng):
    parts = []
    for _ in range(rng.randint(0, 6)):
        kind = rng.randint(0, 9)
        if kind < 5:
            parts.append(rng.choice(SOME))
        elif kind < 8:
            parts.append("".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 12))))
        elif kind < 9:
            parts.append("".join(chr(c) for c in (rng.randint(0, 0x2FFF) for _ in range(rng.randint(1, 6))) if old(c)))
        else:
            c = rng.randint(0, 0x10FFFF)
            parts.append(chr(c) if old(c) else " ")
    return rng.choice(["", " "]).join(parts)


PATTERNS = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[\p{Han}]+|[a-z]+?\d|\w{2,3}|(?:ab|a)*c|[^\w\s&&[^.]]|\.",
    r"\d+|\s", r"[一-龥぀-ゟ゠-ヿ]+", r"(\w)(?=\w)|^a|\n$", r"x*",
]
BEHAVIOURS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]


def normalizer(rng):
    n = normalizers
    one = lambda: rng.choice([
        n.NFC, n.NFD, n.NFKC, n.NFKD, n.Lowercase, n.StripAccents, n.Nmt,
        lambda: n.Strip(rng.random() < .5, rng.random() < .5),
        lambda: n.Replace(rng.choice(["a", " ", "``", "你"]), rng.choice(["", "▁", "zz"])),
        lambda: n.Replace(Regex(rng.choice([r" {2,}", r"\s+", r"\d", r"[aeiou]+"])), rng.choice(["", " ", "#"])),
        lambda: n.Prepend("▁"),
        lambda: n.BertNormalizer(rng.random() < .5, rng.random() < .5, rng.choice([None, True, False]), rng.random() < .5),
    ])()
    count = rng.choice([0, 0, 1, 1, 2, 3])
    return None if count == 0 else one() if count == 1 else n.Sequence([one() for _ in range(count)])


def splitter(rng, norm):
    p = pre_tokenizers
    one = lambda: rng.choice([
        lambda: p.ByteLevel(rng.random() < .5, use_regex=rng.random() < .7),
        lambda: p.Split(Regex(rng.choice(PATTERNS)), rng.choice(BEHAVIOURS), rng.random() < .3),
        lambda: p.Split(rng.choice([" ", "a", "▁"]), rng.choice(BEHAVIOURS), rng.random() < .3),
        p.Whitespace, p.WhitespaceSplit, p.BertPreTokenizer,
        lambda: p.Metaspace("▁", rng.choice(["always", "first", "never"]), rng.random() < .7),
        lambda: p.Digits(rng.random() < .5), lambda: p.Punctuation(rng.choice(BEHAVIOURS)),
        lambda: p.CharDelimiterSplit("-"),
    ])()
    count = rng.choice([0, 1, 1, 1, 2, 3])
    found = [one() for _ in range(count)]
    # Metaspace asks where a mark that another or a Prepend wrote comes from: nothing we answer
    def unanswered():
        spaces = [f for f in found if isinstance(f, p.Metaspace)]
        first = [f for f in spaces if f.prepend_scheme == "first"]
        return len(spaces) > 1 or (first and norm is not None and "Prepend" in repr(norm))

    while unanswered(): found = [one() for _ in range(count)]
    return None if count == 0 else found[0] if count == 1 else p.Sequence(found)


def decoder(rng):
    d = decoders
    one = lambda: rng.choice([
        d.ByteLevel, d.ByteFallback, d.Fuse, lambda: d.WordPiece("##", rng.random() < .5),
        lambda: d.Metaspace("▁", rng.choice(["always", "first", "never"])), lambda: d.Strip(" ", 1, 0),
        lambda: d.Replace("▁", " "), lambda: d.BPEDecoder("</w>"),
    ])()
    count = rng.choice([0, 1, 1, 2, 4])
    return None if count == 0 else one() if count == 1 else d.Sequence([one() for _ in range(count)])


def pieces(rng):
    """Texts that a random vocabulary has."""
    found = {}
    for s in SOME + [text(rng) for _ in range(20)]:
        for _ in range(12):
            i = rng.randint(0, len(s))
            found[s[i:i + rng.randint(1, 5)]] = 1
    found.pop("", None)
    return list(found)


def model(rng, norm, cut):
    kind = rng.choice(["bpe", "bpe", "trained", "unigram", "wordpiece", "wordlevel"])
    fallback = [f"<0x{b:02X}>" for b in range(256)] if rng.random() < .5 else []
    if kind == "trained":
        t = Tokenizer(models.BPE(**rng.choice([{}, {"unk_token": "<unk>"}]), fuse_unk=rng.random() < .5))
        if norm: t.normalizer = norm
        if cut: t.pre_tokenizer = cut
        t.train_from_iterator([text(rng) for _ in range(100)], trainers.BpeTrainer(
            vocab_size=rng.randint(300, 900), special_tokens=["<unk>"], limit_alphabet=rng.choice([60, 1000]), show_progress=False))
        return t.model
    if kind == "bpe":
        vocab, merges = {}, []
        prefix = rng.choice([None, None, "##"]); suffix = rng.choice([None, None, "</w>"])
        for s in ["<unk>"] + fallback + [c for s in SOME for c in s] + [p + c for p in [prefix or ""] for c in map(chr, range(33, 127))] \
                + [c + suffix for c in "abcde你" if suffix]:
            vocab.setdefault(s, len(vocab))
        for _ in range(rng.randint(0, 1500)):
            a, b = rng.choice(list(vocab)[-600:] if rng.random() < .5 else list(vocab)), rng.choice(list(vocab))
            if prefix:
                if not b.startswith(prefix): continue
            c = a + (b[len(prefix):] if prefix else b)
            if (a, b) in merges or len(c) > 12 or "<0x" in c or "<unk>" in c: continue
            vocab.setdefault(c, len(vocab)); merges.append((a, b))
        given = {"unk_token": rng.choice([None, "<unk>"]), "continuing_subword_prefix": prefix, "end_of_word_suffix": suffix}
        return models.BPE(vocab, merges, fuse_unk=rng.random() < .5, byte_fallback=bool(fallback),
                          ignore_merges=rng.random() < .3, **{k: v for k, v in given.items() if v is not None})
    words = ["<unk>"] + fallback + pieces(rng)
    if kind == "unigram":
        # the ids of Unigram are places; of scores of many digits the library reads some one unit off
        digits = rng.choice([1, 6, 17, 17])
        return models.Unigram([(w, round(-rng.random() * 12, digits)) for w in dict.fromkeys(words + list("abcde ▁"))], 0, bool(fallback))
    if kind == "wordpiece":
        words += ["##" + w for w in words[1:]] + list("abcde")
        vocab = {}
        for w in words: vocab.setdefault(w, len(vocab))
        return models.WordPiece(vocab, unk_token="<unk>", max_input_chars_per_word=rng.choice([100, 5]))
    vocab = {}
    for w in words + "hello world The a b 1".split(): vocab.setdefault(w, len(vocab))
    return models.WordLevel(vocab, unk_token="<unk>")


def tokenizer(rng):
    norm = normalizer(rng)
    cut = splitter(rng, norm)
    t = Tokenizer(model(rng, norm, cut))
    if norm: t.normalizer = norm
    if cut: t.pre_tokenizer = cut
    d = decoder(rng)
    if d: t.decoder = d
    flag = lambda: rng.random() < .3
    # what the normaliser changes in an added token, the library's decode shows
    kept = lambda s: flag() and (norm is None or norm.normalize_str(s) == s)
    t.add_special_tokens([AddedToken(s, single_word=flag(), lstrip=flag(), rstrip=flag(), normalized=kept(s))
                          for s in rng.sample(["<s>", "</s>", "[MASK]", "[CLS]", "[SEP]"], rng.randint(2, 5))])
    t.add_tokens([AddedToken(s, single_word=flag(), lstrip=flag(), rstrip=flag(), normalized=kept(s))
                  for s in rng.sample(["<extra>", "don't", "世界", "  ", "the", "ÀB"], rng.randint(0, 3))])
    special = [s for s in ["<s>", "</s>", "[CLS]", "[SEP]"] if t.token_to_id(s) is not None]
    if special and rng.random() < .6:
        a, b = special[0], special[-1]
        pa, pb = (a, t.token_to_id(a)), (b, t.token_to_id(b))
        t.post_processor = rng.choice([
            lambda: processors.TemplateProcessing(single=f"{a} $A {b}", pair=f"{a} $A {b} $B:1 {b}:1", special_tokens=list({pa, pb})),
            lambda: processors.BertProcessing(pb, pa), lambda: processors.RobertaProcessing(pb, pa),
            lambda: processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(single=f"{a} $0", pair=f"{a} $A $B", special_tokens=[pa])]),
        ])()
    return t


def main():
    folder = sys.argv[1]
    count, seed = ([int(v) for v in sys.argv[2:4]] + [20, 1][len(sys.argv) - 2:])[:2]
    os.makedirs(folder, exist_ok=True)
    for i in range(count):
        rng = random.Random(seed * 1000003 + i)
        t = tokenizer(rng)
        t.save(f"{folder}/{i}.json")
        t = Tokenizer.from_file(f"{folder}/{i}.json")
        with open(f"{folder}/{i}.cases", "w") as f:
            for _ in range(100):
                a, b = text(rng), text(rng) if rng.random() < .2 else None
                try:
                    e = t.encode(a, b) if b is not None else t.encode(a)
                    ids, types = e.ids, e.type_ids
                except KeyboardInterrupt:
                    raise
                except BaseException:  # as a unigram without an unknown token; a panic of the library
                    continue
                f.write(json.dumps([a, b, ids, types, t.decode(ids), t.decode(ids, skip_special_tokens=False)]) + "\n")


main()
