//! A file into a [`CpuNetwork`].

use model::plan::BlockPart;
use model::{Estimate, LoadError, Plan, Role, Sink, Tensor, stream};
use weights::ByteSource;

use crate::matrix::{self, Matrix, reserve};
use crate::network::{self, Arithmetic, CpuNetwork, Layer, Weights};

/// Reads a model from `source` as `plan` says, a few MiB at a time.
///
/// `progress` is told the file offset reached, and stops the reading by returning false.
///
/// # Errors
/// [`LoadError`]: of the source, [`LoadError::Stopped`], or [`model::BackendError::Memory`] when there is no
/// room.
pub async fn load<S: ByteSource>(
    source: &mut S,
    plan: &Plan,
    arithmetic: Arithmetic,
    progress: impl FnMut(u64) -> bool,
) -> Result<CpuNetwork, LoadError> {
    let mut parts = Parts {
        tensors: Vec::new(),
    };
    let config = stream(source, plan, &mut parts, progress).await?;
    let layers = (0..config.layers)
        .map(|index| parts.layer(index))
        .collect::<Result<_, _>>()?;
    let weights = Weights {
        embedding: parts.matrix(Role::Embedding)?,
        layers,
        norm: parts.vector(Role::OutputNorm)?,
        head: parts.matrix(Role::Head).ok(),
    };
    Ok(CpuNetwork::new(config, weights, arithmetic)?)
}

/// What the model of `plan` would take.
///
/// # Errors
/// [`model::BackendError::Fault`] for a type that has no kernels.
pub fn estimate(plan: &Plan) -> Result<Estimate, LoadError> {
    let config = &plan.config;
    let mut weights = 0;
    let mut largest = ("", 0);
    for tensor in &plan.tensors {
        let bytes = match tensor.role {
            Role::RopeDivisors => continue,
            role if is_vector(role) => 4 * tensor.cols as u64,
            _ => matrix::memory(tensor.kind, tensor.rows, tensor.cols)?,
        };
        weights += bytes;
        if bytes > largest.1 {
            largest = (&tensor.name, bytes);
        }
    }
    let (cache_per_token, workspace) = network::estimate(config)?;
    Ok(Estimate {
        weights,
        cache_per_token,
        workspace,
        largest: largest.0.to_owned(),
        largest_bytes: largest.1,
        largest_parts: 1,
        most_tokens: None,
        most_bytes: MOST_BYTES,
    })
}

/// What a 32-bit memory has room for beside the program itself.
#[cfg(target_pointer_width = "32")]
const MOST_BYTES: Option<u64> = Some((4 << 30) - (128 << 20));
/// There is no such limit.
#[cfg(not(target_pointer_width = "32"))]
const MOST_BYTES: Option<u64> = None;

/// The tensors that have come so far.
struct Parts {
    tensors: Vec<(Role, Part)>,
}

enum Part {
    Matrix(Matrix),
    Vector(Vec<f32>),
}

impl Sink for Parts {
    async fn rows(&mut self, tensor: &Tensor, first: usize, bytes: &[u8]) -> Result<(), LoadError> {
        if is_vector(tensor.role) {
            let part = Part::Vector(tensor.floats(bytes)?);
            self.tensors.push((tensor.role, part));
            return Ok(());
        }
        if first == 0 {
            let matrix = Matrix::new(tensor.kind, tensor.rows, tensor.cols)?;
            reserve(&mut self.tensors, 1)?;
            self.tensors.push((tensor.role, Part::Matrix(matrix)));
        }
        if let Some((_, Part::Matrix(matrix))) = self.tensors.last_mut() {
            matrix.push_rows(bytes);
        }
        Ok(())
    }
}

fn is_vector(role: Role) -> bool {
    matches!(
        role,
        Role::OutputNorm | Role::Block(_, BlockPart::AttentionNorm | BlockPart::FfnNorm)
    )
}

impl Parts {
    fn take(&mut self, role: Role) -> Result<Part, LoadError> {
        let found = self.tensors.iter().position(|(found, _)| *found == role);
        match found {
            Some(index) => Ok(self.tensors.swap_remove(index).1),
            None => Err(LoadError::Inconsistent(format!(
                "the file has no tensor for {role:?}"
            ))),
        }
    }

    fn matrix(&mut self, role: Role) -> Result<Matrix, LoadError> {
        match self.take(role)? {
            Part::Matrix(matrix) if matrix.is_complete() => Ok(matrix),
            _ => Err(LoadError::Inconsistent(format!(
                "the tensor for {role:?} is no whole matrix"
            ))),
        }
    }

    fn vector(&mut self, role: Role) -> Result<Vec<f32>, LoadError> {
        match self.take(role)? {
            Part::Vector(vector) => Ok(vector),
            Part::Matrix(_) => Err(LoadError::Inconsistent(format!(
                "the tensor for {role:?} is no vector"
            ))),
        }
    }

    fn layer(&mut self, index: usize) -> Result<Layer, LoadError> {
        let role = |part| Role::Block(index, part);
        Ok(Layer {
            attention_norm: self.vector(role(BlockPart::AttentionNorm))?,
            query: self.matrix(role(BlockPart::Query))?,
            key: self.matrix(role(BlockPart::Key))?,
            value: self.matrix(role(BlockPart::Value))?,
            output: self.matrix(role(BlockPart::Output))?,
            ffn_norm: self.vector(role(BlockPart::FfnNorm))?,
            gate: self.matrix(role(BlockPart::Gate))?,
            up: self.matrix(role(BlockPart::Up))?,
            down: self.matrix(role(BlockPart::Down))?,
        })
    }
}
