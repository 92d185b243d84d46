"""Ids of a large mixed text by the library tokenizers, and how fast flame.tokenizers finds the same.

    python3 spec/peer/corpus.py [--flame build/flame-lua] [--megabytes 10] [--seed 1]
                                [--chinese FILE]… [--root FOLDER]… [TOKENIZER.json]…

The text is made of files found below the roots (this repository, Python's library, /usr/share/doc
and vim's tutors): code, English, other languages, with Chinese, emoji and runs of spaces between
them. Tokenizers of the kinds that models have are trained on a part of it by the library: byte-level
BPE with the patterns of GPT-2, Llama 3 and Qwen, a BPE of characters with bytes for what it lacks
(Llama 2), Unigram and WordPiece; further files are given. Every id of every document is compared,
texts are decoded again, and both programs are timed: one thread, its processor time. Exits 1 when something differs.
"""
import argparse
import os
import random
import subprocess
import struct
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path and os.path.abspath(sys.path[0]) == HERE:
    del sys.path[0]  # a file here has the library's name
try:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError:
    print("corpus: skipped, this python3 has no tokenizers")
    sys.exit(0)

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")


# ---- the text ----------------------------------------------------------------------------------

def is_han(c):
    return "\u4e00" <= c <= "\u9fff"


def read(path):
    try:
        if os.path.islink(path) or not 500 < os.path.getsize(path) < 3000000:
            return None
        with open(path, encoding="utf-8") as f:
            return f.read()
    except (OSError, UnicodeDecodeError):
        return None


def found_files(roots):
    """Texts by kind, and all Chinese in them."""
    kinds, chinese = {"code": [], "prose": [], "other": []}, []
    for root in roots:
        for folder, below, names in os.walk(root):
            below.sort()
            for name in sorted(names):
                end = name.rsplit(".", 1)[-1]
                text = read(os.path.join(folder, name))
                if text is None:
                    continue
                foreign = sum(c > "\u0250" for c in text)
                if sum(map(is_han, text)) > 300:
                    chinese.append(text)
                if foreign * 5 > len(text):
                    kinds["other"].append(text)
                elif end in ("c", "h", "py", "lua", "cu", "json", "sh", "js", "vim"):
                    kinds["code"].append(text)
                elif end in ("md", "txt", "html", "rst", "copyright"):
                    kinds["prose"].append(text)
    return kinds, chinese


def emoji(rng):
    one = [chr(rng.choice((0x1F300, 0x1F400, 0x1F600, 0x1F680, 0x1F900)) + rng.randrange(80)) for _ in range(3)]
    return rng.choice(["👩\u200d👩\u200d👧", "👍🏽", "🇩🇪", "❤\ufe0f", one[0], one[0] * 3, "".join(one)])


def spaces(rng):
    return rng.choice([" " * rng.randint(1, 40), "\t" * rng.randint(1, 6), "\n" * rng.randint(1, 8),
                       "\r\n\r\n", " \n \n\t", "\u3000", "\u00a0", "  \u2003 "])


def documents(kinds, chinese, size, rng):
    """Texts of 100 bytes to 100 KB, about 'size' bytes together."""
    out, total = [], 0
    sources = dict(kinds, chinese=chinese)
    shares = [k for k in ("code", "code", "prose", "prose", "chinese", "chinese", "chinese", "other") if sources[k]]
    while total < size:
        parts, length = [], int(100 * 10 ** rng.uniform(0, 3))
        while length > 0:
            text = rng.choice(sources[rng.choice(shares)])
            at, n = rng.randrange(len(text)), min(length, int(10 ** rng.uniform(1, 4)))
            parts.append(text[at:at + n])
            if rng.random() < 0.4:
                parts.append(emoji(rng))
            if rng.random() < 0.4:
                parts.append(spaces(rng))
            length -= n
        text = "".join(parts)
        out.append(text)
        total += len(text.encode())
    return out


# ---- the tokenizers ----------------------------------------------------------------------------

def byte_level(pattern, normalizer, sample, size):
    t = Tokenizer(models.BPE())
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(sample, trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def characters(sample, size):
    """As Llama 2's: BPE over characters, what the vocabulary lacks by bytes."""
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", "never")
    t.train_from_iterator(sample, trainers.BpeTrainer(
        vocab_size=size, limit_alphabet=1000, show_progress=False,
        special_tokens=["<unk>"] + ["<0x%02X>" % b for b in range(256)]))
    t.pre_tokenizer = None
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return t


def unigram(sample, size):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(sample, trainers.UnigramTrainer(
        vocab_size=size, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False))
    return t


def wordpiece(sample, size):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(sample, trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=["[UNK]"], show_progress=False))
    return t


def trained(docs, rng):
    sample = rng.sample(docs, max(1, len(docs) // 8))
    short = [d[:3000] for d in sample]
    return {
        "byte-level BPE, GPT-2": byte_level(GPT2, None, sample, 8000),
        "byte-level BPE, Llama 3": byte_level(LLAMA3, None, sample, 16000),
        "byte-level BPE, Qwen, NFC": byte_level(QWEN, normalizers.NFC(), sample, 16000),
        "BPE with bytes, Llama 2": characters(short, 8000),
        "Unigram, NFKC": unigram(short, 8000),
        "WordPiece, BERT": wordpiece(short, 8000),
    }


# ---- comparison ----------------------------------------------------------------------------------

def write_case(folder, k, tokenizer, docs):
    """The tokenizer, its ids and its texts of every document; seconds of encoding."""
    base = os.path.join(folder, str(k))
    tokenizer.save(base + ".json")
    tokenizer = Tokenizer.from_file(base + ".json")   # which reads scores with an error of their last digit
    start = time.process_time()
    ids = [e.ids for e in (tokenizer.encode(d, add_special_tokens=False) for d in docs)]
    took = time.process_time() - start
    with open(base + ".ids", "wb") as f:
        for row in ids:
            text = tokenizer.decode(row, skip_special_tokens=False).encode()
            f.write(struct.pack("<I%diI" % len(row), 4 * len(row), *row, len(text)) + text)
    return took, sum(map(len, ids))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--flame", default="build/flame-lua")
    options.add_argument("--megabytes", type=float, default=10)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--chinese", action="append", default=[])
    options.add_argument("--root", action="append", default=[])
    options.add_argument("files", nargs="*")
    o = options.parse_args()
    rng = random.Random(o.seed)
    roots = o.root or [os.path.join(HERE, "..", ".."), os.path.dirname(os.__file__), "/usr/share/doc", "/usr/share/vim"]
    kinds, chinese = found_files(roots)
    chinese = [t for t in map(read, o.chinese) if t] or chinese
    docs = documents(kinds, chinese, o.megabytes * 1e6, rng)
    size = sum(len(d.encode()) for d in docs)
    every = "".join(docs)
    print("%d documents, %.1f MB: %d Chinese characters, %d from U+1F000 on, %d spaces; %d different ones" % (
        len(docs), size / 1e6, sum(map(is_han, every)), sum(c >= "\U0001f000" for c in every),
        sum(map(str.isspace, every)), len(set(every))))
    cases = trained(docs, rng)
    cases.update((f, Tokenizer.from_file(f)) for f in o.files)
    bad = False
    for k, (title, tokenizer) in enumerate(cases.items()):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "texts"), "wb") as f:
                for d in docs:
                    b = d.encode()
                    f.write(struct.pack("<I", len(b)) + b)
            took, count = write_case(folder, k, tokenizer, docs)
            print("%s: %d ids, the library %.1f MB/s" % (title, count, size / took / 1e6), flush=True)
            done = subprocess.run([o.flame, "spec/peer/corpus.lua", folder, str(k)], env=dict(os.environ, FLAME_THREADS="1"))
            bad = bad or done.returncode != 0
    sys.exit(1 if bad else 0)


main()
