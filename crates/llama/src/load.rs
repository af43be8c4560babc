//! From a file to a model on the GPU, a few MiB at a time.

use std::collections::HashMap;

use burn::tensor::Tensor;
use model::plan::BlockPart;
use model::{Config, Estimate, LoadError, Plan, Role, Sink, Tensor as Source};
use weights::ByteSource;
use weights::layout::Packer;

use crate::gpu::{Gpu, float_handle};
use crate::linear::{Band, Linear, most_rows};
use crate::network::{self, Block, GpuNetwork, Llama};

/// Bytes written to the GPU before waiting for it: writes are queued by the browser, and a queue
/// without bound would hold the whole model a second time.
const IN_FLIGHT_BYTES: usize = 64 << 20;

/// Where a tensor of the file goes.
#[derive(Clone, Debug)]
enum Target {
    /// Rows of a matrix, from this one on.
    Rows(Box<Linear>, usize),
    /// A vector in single precision.
    Floats(Box<Tensor<1>>),
}

/// Loads a model. Keys and values of its cache are kept in half precision if asked.
///
/// `progress` is told the file offset reached, and stops the load by returning false.
///
/// # Errors
/// See [`LoadError`]. What was allocated is given back.
pub async fn load<S: ByteSource>(
    gpu: &Gpu,
    source: &mut S,
    plan: &Plan,
    half_cache: bool,
    progress: impl FnMut(u64) -> bool,
) -> Result<GpuNetwork, LoadError> {
    let (model, targets) = allocate(gpu, plan)?;
    gpu.finish().await?;
    let mut loader = Loader {
        gpu,
        targets,
        words: Vec::new(),
        scales: Vec::new(),
        in_flight: 0,
    };
    let config = model::stream(source, plan, &mut loader, progress).await?;
    // What was written is only queued; wait so that a failure shows here.
    gpu.finish().await?;
    Ok(GpuNetwork::new(gpu.clone(), config, model, half_cache).await?)
}

/// What the model of `plan` would take, with keys and values in half precision if asked.
///
/// # Errors
/// [`LoadError`] where a tensor can be in no buffer of this adapter, or has no kernels.
pub fn estimate(gpu: &Gpu, plan: &Plan, half_cache: bool) -> Result<Estimate, LoadError> {
    let mut weights = 0;
    let mut largest = ("", 0, 1);
    for tensor in &plan.tensors {
        let (bytes, parts) = match tensor.role {
            Role::RopeDivisors => continue,
            role if is_vector(role) => (4 * tensor.cols as u64, 1),
            _ => {
                let layout = packer(tensor)?.layout();
                let row = layout.row_words(tensor.cols) + layout.row_scales(tensor.cols);
                let most = most_rows(gpu, layout, tensor.cols)?;
                let parts = tensor.rows.div_ceil(most);
                (4 * row as u64 * tensor.rows as u64, parts as u32)
            }
        };
        weights += bytes;
        if bytes > largest.1 {
            largest = (&tensor.name, bytes, parts);
        }
    }
    let (cache_per_token, workspace, most_tokens) =
        network::estimate(gpu, &plan.config, half_cache);
    Ok(Estimate {
        weights,
        cache_per_token,
        workspace,
        largest: largest.0.to_owned(),
        largest_bytes: largest.1,
        largest_parts: largest.2,
        most_tokens: Some(most_tokens),
        most_bytes: None,
    })
}

fn is_vector(role: Role) -> bool {
    matches!(
        role,
        Role::OutputNorm | Role::Block(_, BlockPart::AttentionNorm | BlockPart::FfnNorm)
    )
}

struct Loader<'a> {
    gpu: &'a Gpu,
    targets: HashMap<Role, Target>,
    words: Vec<u32>,
    scales: Vec<u32>,
    in_flight: usize,
}

impl Sink for Loader<'_> {
    async fn rows(&mut self, tensor: &Source, first: usize, bytes: &[u8]) -> Result<(), LoadError> {
        match self.targets.get(&tensor.role) {
            Some(Target::Rows(linear, start)) => {
                self.words.clear();
                self.scales.clear();
                packer(tensor)?
                    .pack(bytes, &mut self.words, &mut self.scales)
                    .map_err(|error| {
                        LoadError::Inconsistent(format!("{}: {error}", tensor.name))
                    })?;
                let count = bytes.len() / tensor.row_bytes();
                linear.write(self.gpu, start + first, count, &self.words, &self.scales);
            }
            Some(Target::Floats(vector)) => {
                let values = tensor.floats(bytes)?;
                let handle = float_handle(vector);
                self.gpu.write(&handle, 0, bytemuck::cast_slice(&values));
            }
            None => return Ok(()),
        }
        // Until then burn keeps the bytes on this side.
        self.gpu.submit()?;
        self.in_flight += bytes.len();
        if self.in_flight >= IN_FLIGHT_BYTES {
            self.gpu.finish().await?;
            self.in_flight = 0;
        }
        Ok(())
    }
}

fn packer(tensor: &Source) -> Result<Packer, LoadError> {
    Packer::new(tensor.kind, tensor.cols)
        .map_err(|error| LoadError::Unsupported(format!("{}: {error}", tensor.name)))
}

/// Allocates all matrices and vectors, and says which tensor goes where.
fn allocate(gpu: &Gpu, plan: &Plan) -> Result<(Llama, HashMap<Role, Target>), LoadError> {
    let mut allocator = Allocator {
        gpu,
        plan,
        targets: HashMap::new(),
    };
    let has_head = plan.tensors.iter().any(|tensor| tensor.role == Role::Head);
    let embedding = allocator.matrix(&[Role::Embedding])?;
    let head = has_head
        .then(|| allocator.matrix(&[Role::Head]))
        .transpose()?;
    let norm = allocator.vector(Role::OutputNorm);
    let blocks = (0..plan.config.layers)
        .map(|index| allocator.block(index))
        .collect::<Result<_, _>>()?;
    let model = Llama {
        embedding,
        blocks,
        norm,
        head,
    };
    Ok((model, allocator.targets))
}

struct Allocator<'a> {
    gpu: &'a Gpu,
    plan: &'a Plan,
    targets: HashMap<Role, Target>,
}

impl Allocator<'_> {
    fn config(&self) -> &Config {
        &self.plan.config
    }

    /// A matrix of these tensors, one under the other.
    fn matrix(&mut self, roles: &[Role]) -> Result<Linear, LoadError> {
        let mut bands = Vec::new();
        let mut cols = 0;
        for role in roles {
            // A plan has every role that its shape asks for.
            let tensor = self.plan.tensors.iter().find(|it| it.role == *role);
            let tensor = tensor.ok_or_else(|| {
                LoadError::Inconsistent(format!("the plan has no tensor for {role:?}"))
            })?;
            cols = tensor.cols;
            bands.push(Band {
                layout: packer(tensor)?.layout(),
                rows: tensor.rows,
            });
        }
        let linear = Linear::allocate(self.gpu, &bands, cols)?;
        let mut first = 0;
        for (role, band) in roles.iter().zip(&bands) {
            let target = Target::Rows(Box::new(linear.clone()), first);
            self.targets.insert(*role, target);
            first += band.rows;
        }
        Ok(linear)
    }

    fn vector(&mut self, role: Role) -> Tensor<1> {
        let (_, len) = role.shape(self.config());
        let floats = self.gpu.floats(len);
        let target = Target::Floats(Box::new(floats.clone()));
        self.targets.insert(role, target);
        floats
    }

    fn block(&mut self, index: usize) -> Result<Block, LoadError> {
        let role = |part| Role::Block(index, part);
        Ok(Block {
            attention_norm: self.vector(role(BlockPart::AttentionNorm)),
            qkv: self.matrix(&[
                role(BlockPart::Query),
                role(BlockPart::Key),
                role(BlockPart::Value),
            ])?,
            output: self.matrix(&[role(BlockPart::Output)])?,
            ffn_norm: self.vector(role(BlockPart::FfnNorm)),
            gate: self.matrix(&[role(BlockPart::Gate)])?,
            up: self.matrix(&[role(BlockPart::Up)])?,
            down: self.matrix(&[role(BlockPart::Down)])?,
        })
    }
}
