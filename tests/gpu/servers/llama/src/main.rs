// SPDX-License-Identifier: MIT OR Apache-2.0
//! A language model of random weights in llama.cpp: loads it, answers prompts token by token, unloads it, and once more.
//! Behind each of these it prints `phase NAME` and waits for a line, so that somebody can look at the device's memory.
//!
//! Usage: llama-server MODEL.gguf
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use std::num::NonZeroU32;
use std::time::Instant;

#[path = "../../tell.rs"]
mod tell;

/// Greedy, in a context of its own. Gives the sum of the tokens, and adds the time of each.
fn answer(backend: &LlamaBackend, model: &LlamaModel, prompt: i32, times: &mut Vec<f64>) -> u64 {
    let params = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(512 + 128 * prompt as u32))
        .with_n_batch(512);
    let mut context = model.new_context(backend, params).unwrap();
    let mut batch = LlamaBatch::new(512, 1);
    let length = 32 + prompt * 16;
    for i in 0..length {
        let token = LlamaToken((i * 7919 + prompt) % model.n_vocab());
        batch.add(token, i, &[0], i == length - 1).unwrap();
    }
    let mut sum = 0;
    for i in 0..120 {
        let begin = Instant::now();
        context.decode(&mut batch).unwrap();
        let logits = context.get_logits_ith(batch.n_tokens() - 1);
        let best = (0..logits.len())
            .max_by(|a, b| logits[*a].total_cmp(&logits[*b]))
            .unwrap();
        times.push(begin.elapsed().as_secs_f64());
        sum += best as u64;
        batch.clear();
        batch
            .add(LlamaToken(best as i32), length + i, &[0], true)
            .unwrap();
    }
    sum
}

fn main() {
    let file = std::env::args().nth(1).expect("which model?");
    let mut backend = LlamaBackend::init().unwrap();
    backend.void_logs();
    tell::phase("begun");
    let mut times = Vec::new();
    let mut sum = 0;
    for _ in 0..2 {
        let params = LlamaModelParams::default().with_n_gpu_layers(999);
        let model = LlamaModel::load_from_file(&backend, &file, &params).unwrap();
        answer(&backend, &model, 0, &mut Vec::new());
        for prompt in 1..9 {
            sum += answer(&backend, &model, prompt, &mut times);
        }
        tell::phase("loaded");
        drop(model);
        tell::phase("unloaded");
    }
    tell::result(times, sum);
}
