// SPDX-License-Identifier: MIT OR Apache-2.0
//! A language model of random weights in candle: loads it, answers prompts token by token, unloads it, and once more.
//! Behind each of these it prints `phase NAME` and waits for a line, so that somebody can look at the device's memory.
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models::llama::{Cache, Config, Llama};
use std::time::Instant;

#[path = "../../tell.rs"]
mod tell;

fn config() -> Config {
    Config {
        hidden_size: 1024,
        intermediate_size: 2816,
        vocab_size: 16000,
        num_hidden_layers: 16,
        num_attention_heads: 16,
        num_key_value_heads: 16,
        use_flash_attn: false,
        rms_norm_eps: 1e-5,
        rope_theta: 10000.0,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: None,
        max_position_embeddings: 1024,
        tie_word_embeddings: false,
    }
}

/// Greedy. Gives the tokens, and adds the time of each.
fn answer(model: &Llama, device: &Device, prompt: u32, times: &mut Vec<f64>) -> Result<Vec<u32>> {
    let config = config();
    let mut cache = Cache::new(true, DType::F32, &config, device)?;
    let mut tokens: Vec<u32> = (0..32 + prompt * 16)
        .map(|i| (i * 7919 + prompt) % 16000)
        .collect();
    let mut at = 0;
    for _ in 0..120 {
        let begin = Instant::now();
        let input = Tensor::new(&tokens[at..], device)?.unsqueeze(0)?;
        let logits = model.forward(&input, at, &mut cache)?.flatten_all()?;
        at = tokens.len();
        tokens.push(logits.argmax(0)?.to_scalar::<u32>()?);
        times.push(begin.elapsed().as_secs_f64());
    }
    Ok(tokens)
}

fn main() -> Result<()> {
    let device = Device::new_cuda(0)?;
    tell::phase("begun");
    let mut times = Vec::new();
    let mut sum: u64 = 0;
    for _ in 0..2 {
        device.set_seed(7)?;
        let weights = VarMap::new();
        let model = Llama::load(
            VarBuilder::from_varmap(&weights, DType::F32, &device),
            &config(),
        )?;
        answer(&model, &device, 0, &mut Vec::new())?;
        for prompt in 1..9 {
            let tokens = answer(&model, &device, prompt, &mut times)?;
            sum += tokens.iter().map(|token| u64::from(*token)).sum::<u64>();
        }
        tell::phase("loaded");
        drop(model);
        drop(weights);
        device.synchronize()?;
        tell::phase("unloaded");
    }
    tell::result(times, sum);
    Ok(())
}
