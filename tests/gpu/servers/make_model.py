#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes a language model of random weights for llama.cpp: make_model.py FILE.gguf. Needs gguf and numpy (PyPI)."""
import sys

import gguf
import numpy

WIDTH, INNER, WORDS, LAYERS, HEADS = 1024, 2816, 16000, 16, 16


def main():
    random = numpy.random.default_rng(7)
    writer = gguf.GGUFWriter(sys.argv[1], "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(WORDS)
    writer.add_tokenizer_model("no_vocab")

    def add(name, *shape):
        if len(shape) == 1:
            writer.add_tensor(name, numpy.ones(shape, dtype=numpy.float32))
        else:
            writer.add_tensor(name, (random.standard_normal(shape, dtype=numpy.float32) / 32).astype(numpy.float16))

    add("token_embd.weight", WORDS, WIDTH)
    for i in range(LAYERS):
        add(f"blk.{i}.attn_norm.weight", WIDTH)
        for part in ("q", "k", "v", "output"):
            add(f"blk.{i}.attn_{part}.weight", WIDTH, WIDTH)
        add(f"blk.{i}.ffn_norm.weight", WIDTH)
        add(f"blk.{i}.ffn_gate.weight", INNER, WIDTH)
        add(f"blk.{i}.ffn_up.weight", INNER, WIDTH)
        add(f"blk.{i}.ffn_down.weight", WIDTH, INNER)
    add("output_norm.weight", WIDTH)
    add("output.weight", WORDS, WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
