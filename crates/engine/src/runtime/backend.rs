//! The processors that an engine may run on.

use model::{BackendError, Estimate, LoadError, Network, Plan};
use weights::ByteSource;

use crate::protocol::Processor;

/// A processor, ready to load models.
#[expect(
    async_fn_in_trait,
    reason = "everything here runs on one thread; no future is sent to another"
)]
pub trait Backend: Sized {
    /// A model on it.
    type Network: Network;

    /// Gets the processor ready. `max_binding` lowers the bytes that it binds at once, where it binds
    /// buffers, below what it could.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] when there is none.
    async fn open(max_binding: Option<u64>) -> Result<Self, BackendError>;

    /// What it is.
    fn processor(&self) -> Processor;

    /// What a model would take.
    ///
    /// # Errors
    /// [`LoadError`] where it cannot run here at all.
    fn estimate(&self, plan: &Plan, half_cache: bool) -> Result<Estimate, LoadError>;

    /// Loads a model.
    ///
    /// # Errors
    /// See [`LoadError`].
    async fn load<S: ByteSource>(
        &self,
        source: &mut S,
        plan: &Plan,
        half_cache: bool,
        progress: impl FnMut(u64) -> bool,
    ) -> Result<Self::Network, LoadError>;

    /// Whether the model's cache is kept in half precision.
    fn half_cache(network: &Self::Network) -> bool;

    /// Bytes of weights that decoding a token reads.
    fn bytes_per_token(network: &Self::Network) -> u64;

    /// Kernel launches and submissions so far.
    fn counts(&self) -> (u64, u64);
}

/// WebGPU in a browser, Vulkan and its like natively.
#[cfg(feature = "gpu")]
#[derive(Debug)]
pub struct Gpu(llama::Gpu);

#[cfg(feature = "gpu")]
impl Backend for Gpu {
    type Network = llama::GpuNetwork;

    async fn open(max_binding: Option<u64>) -> Result<Self, BackendError> {
        let gpu = llama::Gpu::open().await?;
        Ok(Self(match max_binding {
            Some(bytes) => gpu.with_max_binding(bytes),
            None => gpu,
        }))
    }

    fn processor(&self) -> Processor {
        let info = self.0.info();
        Processor::Gpu {
            adapter: crate::protocol::Adapter {
                name: info.name.clone(),
                software: info.software,
                max_binding: info.max_binding,
                max_buffer: info.max_buffer,
            },
        }
    }

    fn estimate(&self, plan: &Plan, half_cache: bool) -> Result<Estimate, LoadError> {
        llama::estimate(&self.0, plan, half_cache)
    }

    async fn load<S: ByteSource>(
        &self,
        source: &mut S,
        plan: &Plan,
        half_cache: bool,
        progress: impl FnMut(u64) -> bool,
    ) -> Result<Self::Network, LoadError> {
        llama::load(&self.0, source, plan, half_cache, progress).await
    }

    fn half_cache(network: &Self::Network) -> bool {
        network.half_cache()
    }

    fn bytes_per_token(network: &Self::Network) -> u64 {
        network.model().bytes_per_token()
    }

    fn counts(&self) -> (u64, u64) {
        (self.0.launches(), self.0.submits())
    }
}

/// The CPU, one thread.
#[cfg(feature = "cpu")]
#[derive(Debug)]
pub struct Cpu {
    arithmetic: cpu::Arithmetic,
}

#[cfg(feature = "cpu")]
impl Cpu {
    /// A CPU that calculates so.
    pub fn new(arithmetic: cpu::Arithmetic) -> Self {
        Self { arithmetic }
    }
}

#[cfg(feature = "cpu")]
impl Backend for Cpu {
    type Network = cpu::CpuNetwork;

    async fn open(_max_binding: Option<u64>) -> Result<Self, BackendError> {
        Ok(Self::new(cpu::Arithmetic::Fast))
    }

    fn processor(&self) -> Processor {
        Processor::Cpu {
            vectors: cpu::vectors().to_owned(),
        }
    }

    fn estimate(&self, plan: &Plan, _half_cache: bool) -> Result<Estimate, LoadError> {
        cpu::estimate(plan)
    }

    async fn load<S: ByteSource>(
        &self,
        source: &mut S,
        plan: &Plan,
        _half_cache: bool,
        progress: impl FnMut(u64) -> bool,
    ) -> Result<Self::Network, LoadError> {
        cpu::load(source, plan, self.arithmetic, progress).await
    }

    fn half_cache(_network: &Self::Network) -> bool {
        false
    }

    fn bytes_per_token(network: &Self::Network) -> u64 {
        network.bytes_per_token()
    }

    fn counts(&self) -> (u64, u64) {
        (0, 0)
    }
}
