#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""make_whisper.py MODEL.bin SOUND.wav

Writes a small whisper model with random weights, 9 MB, in the format that whisper.cpp reads (whisper_model_load()), and three seconds
of noise. It hears nothing in them, but computes what a real one would."""

import random
import struct
import sys
import wave

# the numbers of special tokens, which follow the words, are fixed, so the vocabulary has to be whole
WORDS = 50257
VOCAB, AUDIO_CTX, TEXT_CTX, STATE, HEADS, LAYERS, MELS, FFT = 51864, 1500, 448, 64, 1, 4, 80, 201
F32, F16 = 0, 1

draw = random.Random(1)
WEIGHTS = struct.pack("<9973e", *(draw.uniform(-0.1, 0.1) for _ in range(9973)))
FLOATS = struct.pack("<9973f", *(draw.uniform(-0.1, 0.1) for _ in range(9973)))


def tensor(out, name, kind, *sizes):
    n = 1
    for size in sizes:
        n *= size
    pool, bytes_ = (WEIGHTS, 2 * n) if kind == F16 else (FLOATS, 4 * n)
    out.write(struct.pack(f"<iii{len(sizes)}i", len(sizes), len(name), kind, *sizes) + name.encode())
    out.write((pool * (bytes_ // len(pool) + 1))[:bytes_])


def layer(out, name, inputs, outputs, bias=True):
    tensor(out, f"{name}.weight", F16, inputs, outputs)
    if bias:
        tensor(out, f"{name}.bias", F32, outputs)


def norm(out, name):
    tensor(out, f"{name}.weight", F32, STATE)
    tensor(out, f"{name}.bias", F32, STATE)


def block(out, name, attentions):
    norm(out, f"{name}.mlp_ln")
    layer(out, f"{name}.mlp.0", STATE, 4 * STATE)
    layer(out, f"{name}.mlp.2", 4 * STATE, STATE)
    for attention in attentions:
        norm(out, f"{name}.{attention}_ln")
        for part in ("query", "key", "value", "out"):
            layer(out, f"{name}.{attention}.{part}", STATE, STATE, part != "key")


def write_model(out):
    out.write(struct.pack("<12I", 0x67676d6c, VOCAB, AUDIO_CTX, STATE, HEADS, LAYERS, TEXT_CTX, STATE, HEADS, LAYERS, MELS, F16))
    out.write(struct.pack(f"<ii{MELS * FFT}f", MELS, FFT, *(draw.random() for _ in range(MELS * FFT))))
    out.write(struct.pack("<i", WORDS))
    for i in range(WORDS):
        word = f" w{i}".encode() if i else b" "
        out.write(struct.pack("<I", len(word)) + word)
    tensor(out, "encoder.positional_embedding", F32, STATE, AUDIO_CTX)
    for i, inputs in (1, MELS), (2, STATE):
        tensor(out, f"encoder.conv{i}.weight", F16, 3, inputs, STATE)
        tensor(out, f"encoder.conv{i}.bias", F32, 1, STATE)
    norm(out, "encoder.ln_post")
    tensor(out, "decoder.positional_embedding", F32, STATE, TEXT_CTX)
    tensor(out, "decoder.token_embedding.weight", F16, STATE, VOCAB)
    norm(out, "decoder.ln")
    for i in range(LAYERS):
        block(out, f"encoder.blocks.{i}", ["attn"])
        block(out, f"decoder.blocks.{i}", ["attn", "cross_attn"])


with open(sys.argv[1], "wb") as f:
    write_model(f)
with wave.open(sys.argv[2], "wb") as w:
    w.setparams((1, 2, 16000, 0, "NONE", ""))
    w.writeframes(struct.pack("<48000h", *(draw.randint(-3000, 3000) for _ in range(48000))))
