//! A model of a given shape with random weights, as llama.cpp's Q4_K_M stores it, without a file.

use model::plan::BlockPart;
use model::{Config, Pairing, Plan, Role, Rope, Tensor};
use weights::{BlockType, ByteSource, SourceError};

/// dim 768, 12 layers, 12 query and 4 key heads, ffn 2048, vocabulary of 32,000.
pub fn shape_160m() -> Config {
    Config {
        layers: 12,
        dim: 768,
        heads: 12,
        kv_heads: 4,
        head_dim: 64,
        ffn: 2048,
        vocab: 32_000,
        norm_eps: 1e-5,
        context: 4096,
        rope: Rope {
            theta: 10_000.0,
            linear: 1.0,
            divisors: None,
            pairing: Pairing::Adjacent,
        },
    }
}

/// Whether llama.cpp gives a layer's value and down projections more bits in a Q4_K_M file.
fn more_bits(layer: usize, layers: usize) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

/// The tensors of a file: Q4_K, and Q6_K for the head and for half of `ffn_down` and `attn_v`.
pub fn plan(config: Config) -> Plan {
    let mut roles = vec![Role::Embedding, Role::OutputNorm, Role::Head];
    for layer in 0..config.layers {
        roles.extend(BlockPart::ALL.map(|part| Role::Block(layer, part)));
    }
    let mut offset = 0;
    let tensors = roles.into_iter().map(|role| {
        let (rows, cols) = role.shape(&config);
        let kind = match role {
            _ if rows == 1 => BlockType::F32,
            Role::Head => BlockType::Q6_K,
            Role::Block(layer, BlockPart::Value | BlockPart::Down)
                if more_bits(layer, config.layers) =>
            {
                BlockType::Q6_K
            }
            _ => BlockType::Q4_K,
        };
        let tensor = Tensor {
            name: format!("{role:?}"),
            role,
            kind,
            rows,
            cols,
            offset,
        };
        offset += tensor.bytes();
        tensor
    });
    let tensors = tensors.collect();
    Plan::new(config, tensors).expect("a whole model")
}

/// Random blocks with scales that keep the activations finite.
pub struct RandomSource {
    plan: Plan,
    state: u64,
}

impl RandomSource {
    /// The weights of a plan.
    pub fn new(plan: Plan) -> Self {
        Self { plan, state: 1 }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

impl ByteSource for RandomSource {
    fn name(&self) -> String {
        "random weights".to_owned()
    }

    fn size(&self) -> Option<u64> {
        Some(self.plan.end())
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        let tensors = &self.plan.tensors;
        let after = tensors.partition_point(|tensor| tensor.offset <= offset);
        let kind = tensors[after - 1].kind;
        if kind == BlockType::F32 {
            buf.extend(std::iter::repeat_n(1f32.to_le_bytes(), len / 4).flatten());
            return Ok(());
        }
        let start = buf.len();
        while buf.len() < start + len {
            let word = self.next().to_le_bytes();
            buf.extend_from_slice(&word[..word.len().min(start + len - buf.len())]);
        }
        // 0x0800 is 2⁻¹³ in half precision.
        let scale = if kind == BlockType::Q6_K { 208 } else { 0 };
        for block in buf[start..].chunks_exact_mut(kind.block_bytes()) {
            block[scale..scale + 2].copy_from_slice(&0x0800u16.to_le_bytes());
            if kind == BlockType::Q4_K {
                block[2..4].copy_from_slice(&0x1000u16.to_le_bytes());
            }
        }
        Ok(())
    }
}
