"""Writes spec/io/tokenizers_reference.lua: six kinds of tokenizers that the library `tokenizers` trains, and
its ids and texts of a mixed text (code, prose, Chinese, emoji, spaces). spec/io/tokenizers_ids_spec.lua
compares with them, on machines without the library too.

    python3 spec/peer/tokenizers_reference.py >spec/io/tokenizers_reference.lua
"""
import json
import os
import sys

if sys.path and os.path.dirname(os.path.abspath(__file__)) == os.path.abspath(sys.path[0]):
    del sys.path[0]  # a file here has the library's name
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
TEXTS = [
    "for i, row in ipairs(rows) do\n  local n <const> = #row // 2\n\trows[i] = row:sub(1, n) .. '…'\nend\n",
    "def mean(values):\n    return sum(values) / len(values)  # it's 0.5 of 1234567\n",
    "The network's weights weren't trained for long; it'll learn, I'VE heard, in 1024 or 4096 steps.",
    "神经网络的权重还没有训练好，需要一千零二十四步。网络在学习，学习需要时间！",
    "Привет, мир! Сеть учится. Ελληνικά και άλλα. नमस्ते दुनिया 한국어 テスト",
    "😀😀👍🏽👩\u200d👩\u200d👧 🇩🇪❤\ufe0f ok 🙂",
    "   two\t\t\ttabs \n\n\n  and   runs    of     spaces \r\n\r\n\u3000\u00a0end   ",
    "e\u0301le\u0300ve a\u0308\u0323 ﬁne ① ½ ＡＢＣ ™ ẞ İstanbul Ǆ",
    "x=3.14159;y=-2e-5;z=[1,2,3];print(f'{x:.3f}')//!!??--__##<eos>tail",
    "",
]


def byte_level(pattern, normalizer=None, size=300):
    t = Tokenizer(models.BPE())
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<eos>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def characters():
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=370, limit_alphabet=60, show_progress=False,
        special_tokens=["<unk>", "<eos>"] + ["<0x%02X>" % b for b in range(256)]))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    return t


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    t.train_from_iterator(TEXTS, trainers.UnigramTrainer(
        vocab_size=160, special_tokens=["<unk>", "<eos>"], unk_token="<unk>", show_progress=False))
    return t


def wordpiece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(TEXTS, trainers.WordPieceTrainer(
        vocab_size=260, special_tokens=["[UNK]", "[CLS]", "[SEP]", "<eos>"], show_progress=False))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return t


def quoted(text, width=60):
    """A Lua expression for the text, in lines."""
    parts, line = [], ""
    for c in text:
        shown = c if c.isprintable() and c not in '"\\' else "".join("\\x%02X" % b for b in c.encode())
        if len(line) + len(shown) > width:
            parts.append(line)
            line = ""
        line += shown
    return " ..\n".join('"%s"' % part for part in parts + [line])


def wrapped(items, width=90):
    lines, line = [], ""
    for item in items:
        if line and len(line) + len(item) + 2 > width:
            lines.append(line)
            line = ""
        line += (" " if line else "") + item + ","
    return "\n".join(lines + [line])


def main():
    print("-- Written by spec/peer/tokenizers_reference.py: the library's tokenizers, ids and texts.")
    print("return {\ntexts = {")
    for text in TEXTS:
        print(quoted(text) + ",")
    print("},")
    for title, t in (("byte-level BPE, GPT-2's pattern", byte_level(GPT2)), ("byte-level BPE, Llama 3's", byte_level(LLAMA3)),
                     ("byte-level BPE, Qwen's, NFC", byte_level(QWEN, normalizers.NFC())),
                     ("BPE of characters with bytes", characters()), ("Unigram, NFKC", unigram()), ("WordPiece", wordpiece())):
        t = Tokenizer.from_str(t.to_str())             # which reads scores with an error of their last digit
        text = json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":"))
        assert "]==]" not in text
        pieces = [text[i:i + 64] for i in range(0, len(text), 64)]
        print("{ title = %s, json = table.concat {" % quoted(title))
        for piece in pieces:
            print("[==[%s]==]," % piece)
        print("},\nresults = {")
        for text in TEXTS:
            e = t.encode(text)
            print("{ decoded = %s, ids = {" % quoted(t.decode(e.ids, skip_special_tokens=False)))
            print(wrapped(map(str, e.ids)) + " } },")
        print("} },")
    print("}")


main()
