//! The GPU as this crate sees it: burn's device, the handles behind it, and how to launch on it.

use std::sync::{Arc, Mutex};

use burn::backend::Wgpu;
use burn::backend::wgpu::CubeTensor;
use burn::tensor::{DType, Device, Int, Shape, Tensor};
use burn_wgpu::{MemoryConfiguration, WgpuSetup, wgpu};
use cubecl::CubeCount;
use cubecl::client::Client;
use cubecl::prelude::CubeDim;
use cubecl::server::{Handle, KernelArguments};

use crate::kernels::Kernel;

/// Why the GPU could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// There is no adapter, or it refused to give a device.
    #[error("no usable GPU: {0}")]
    Unavailable(String),
    /// An allocation failed or is larger than the adapter allows.
    #[error("the GPU has no room: {0}")]
    Memory(String),
    /// The device was lost or rejected work; the message is the driver's.
    #[error("the GPU stopped: {0}")]
    Fault(String),
}

/// How kernels spread their work, chosen by the kind of adapter.
///
/// A CPU that emulates a GPU runs one row per invocation fastest, since workgroup barriers are
/// ruinous there; a GPU needs many invocations per row to reach its memory bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spread {
    /// One invocation computes whole rows.
    Rows,
    /// The lanes of a workgroup share a row and reduce through workgroup memory.
    Lanes,
}

/// What the adapter is and allows.
#[derive(Clone, Debug)]
pub struct AdapterInfo {
    /// Vendor, device and driver as far as they are told.
    pub name: String,
    /// Whether it is a CPU emulating a GPU.
    pub software: bool,
    /// Largest storage-buffer binding in bytes.
    pub max_binding: u64,
    /// Largest buffer in bytes.
    pub max_buffer: u64,
}

/// An initialised device.
///
/// Cheap to clone. There is one wgpu device per process; [`Gpu::open`] a second time returns an
/// error from burn.
#[derive(Clone)]
pub struct Gpu {
    device: Device,
    setup: WgpuSetup,
    client: Client,
    anchor: Tensor<1>,
    info: AdapterInfo,
    spread: Spread,
    fault: Arc<Mutex<Option<GpuError>>>,
    launches: Arc<std::sync::atomic::AtomicU64>,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl Gpu {
    /// Opens the default adapter.
    ///
    /// # Errors
    /// [`GpuError::Unavailable`] when there is no adapter or it gives no device.
    pub async fn open() -> Result<Self, GpuError> {
        // Work is submitted where this crate says so, not after a fixed count of launches.
        let (device, setup) = Device::wgpu_options()
            .memory_config(MemoryConfiguration::ExclusivePages)
            .tasks_max(100_000)
            .init_with_setup_async()
            .await
            .map_err(|error| GpuError::Unavailable(error.to_string()))?;
        let fault = Arc::new(Mutex::new(None));
        // cubecl's own handler panics; a panic would take the whole worker down.
        setup.device.on_uncaptured_error(Arc::new({
            let fault = fault.clone();
            move |error: wgpu::Error| {
                let found = match error {
                    wgpu::Error::OutOfMemory { .. } => GpuError::Memory(error.to_string()),
                    other => GpuError::Fault(other.to_string()),
                };
                if let Ok(mut slot) = fault.lock() {
                    slot.get_or_insert(found);
                }
            }
        }));
        let limits = setup.device.limits();
        let raw = setup.adapter.get_info();
        let software = raw.device_type == wgpu::DeviceType::Cpu
            || ["swiftshader", "llvmpipe", "lavapipe"].iter().any(|name| {
                format!("{} {}", raw.name, raw.driver)
                    .to_lowercase()
                    .contains(name)
            });
        let name = [raw.name.as_str(), raw.driver.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ");
        let info = AdapterInfo {
            name: if name.is_empty() {
                "WebGPU adapter".to_owned()
            } else {
                name
            },
            software,
            max_binding: limits.max_storage_buffer_binding_size,
            max_buffer: limits.max_buffer_size,
        };
        let anchor = Tensor::<1>::from_data([0.0f32], &device);
        let client = primitive(&anchor).client;
        let spread = if software {
            Spread::Rows
        } else {
            Spread::Lanes
        };
        Ok(Self {
            device,
            setup,
            client,
            anchor,
            info,
            spread,
            fault,
            launches: Arc::default(),
        })
    }

    /// What the adapter is and allows.
    pub fn info(&self) -> &AdapterInfo {
        &self.info
    }

    /// How kernels spread their work on this adapter.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// The same device with another spread, to test or measure either on any adapter. Its launches
    /// are counted anew.
    #[must_use]
    pub fn with_spread(mut self, spread: Spread) -> Self {
        self.spread = spread;
        self.launches = Arc::default();
        self
    }

    /// Burn's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Kernel launches so far.
    pub fn launches(&self) -> u64 {
        self.launches.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Allocates `len` floats, zeroed, kept until the tensor is dropped.
    pub(crate) fn floats(&self, len: usize) -> Tensor<1> {
        Tensor::from_primitive::<Wgpu>(self.empty(len, DType::F32))
    }

    /// Allocates `len` 32-bit words, zeroed, kept until the tensor is dropped.
    pub(crate) fn words(&self, len: usize) -> Tensor<1, Int> {
        Tensor::from_primitive::<Wgpu>(self.empty(len, DType::U32))
    }

    fn empty(&self, len: usize, dtype: DType) -> CubeTensor {
        let client = self.client.clone();
        let handle = client.memory_persistent_allocation((), |()| client.empty(len * 4));
        let place = primitive(&self.anchor).device;
        CubeTensor::new_contiguous(
            self.client.clone(),
            place,
            Shape::from([len]),
            handle,
            dtype,
        )
    }

    /// Writes `data` at `offset` (both in 32-bit words) of `buffer`.
    pub(crate) fn write(&self, buffer: &Handle, offset: usize, data: &[u32]) {
        let total = buffer.size_in_used();
        let (start, len) = (offset as u64 * 4, data.len() as u64 * 4);
        debug_assert!(start + len <= total, "write past the end of a buffer");
        let target = buffer
            .clone()
            .offset_start(start)
            .offset_end(total - start - len);
        let bytes = bytemuck::cast_slice::<u32, u8>(data).to_vec();
        self.client
            .write(&target, cubecl::bytes::Bytes::from_bytes_vec(bytes));
    }

    /// Queues one kernel. Buffers are bound in the order given.
    pub(crate) fn launch(&self, kernel: Kernel, groups: [u32; 3], buffers: &[&Handle]) {
        let mut arguments = KernelArguments::new();
        for buffer in buffers {
            arguments = arguments.with_buffer((*buffer).clone().binding());
        }
        let dim = CubeDim::new_3d(kernel.group_size(), 1, 1);
        self.launches
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.client.launch(
            Box::new(burn_wgpu::SourceKernel::new(kernel, dim)),
            CubeCount::Static(groups[0], groups[1], groups[2]),
            arguments,
        );
    }

    /// Hands the queued work to the GPU without waiting for it.
    pub(crate) fn submit(&self) -> Result<(), GpuError> {
        self.client
            .flush()
            .map_err(|error| GpuError::Fault(error.to_string()))?;
        self.check()
    }

    /// Waits until the queued work is done.
    ///
    /// # Errors
    /// [`GpuError`] when some of that work failed.
    pub async fn finish(&self) -> Result<(), GpuError> {
        let done = self.client.sync().await;
        self.check()?;
        done.map_err(|error| GpuError::Fault(error.to_string()))
    }

    /// Reads a buffer back.
    pub(crate) async fn read(&self, buffer: &Handle) -> Result<Vec<u32>, GpuError> {
        let read = self.client.read_async(vec![buffer.clone()]).await;
        self.check()?;
        let bytes = read
            .map_err(|error| GpuError::Fault(error.to_string()))?
            .pop()
            .ok_or_else(|| GpuError::Fault("a read returned nothing".to_owned()))?;
        Ok(bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect())
    }

    /// Reports the first fault that the driver raised since the last check.
    pub fn check(&self) -> Result<(), GpuError> {
        match self.fault.lock().ok().and_then(|mut slot| slot.take()) {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    /// Destroys the device, as a driver reset would. For tests of recovery.
    pub fn destroy(&self) {
        self.setup.device.destroy();
    }
}

fn primitive(tensor: &Tensor<1>) -> CubeTensor {
    tensor
        .clone()
        .try_into_primitive::<Wgpu>()
        .expect("every tensor of this crate is made on the wgpu backend")
}

/// The buffer behind a float tensor.
pub(crate) fn float_handle(tensor: &Tensor<1>) -> Handle {
    primitive(tensor).handle
}

/// The buffer behind a word tensor.
pub(crate) fn word_handle(tensor: &Tensor<1, Int>) -> Handle {
    tensor
        .clone()
        .try_into_primitive::<Wgpu>()
        .expect("every tensor of this crate is made on the wgpu backend")
        .handle
}
