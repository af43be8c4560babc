//! The GPU as this crate sees it: burn's device, the handles behind it, and how to launch on it.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use burn::backend::Wgpu;
use burn::backend::wgpu::CubeTensor;
use burn::tensor::{DType, Device, Int, Shape, Tensor};
use burn_wgpu::{MemoryConfiguration, WgpuSetup, wgpu};
use cubecl::client::Client;
use cubecl::prelude::CubeDim;
use cubecl::server::{Handle, KernelArguments};
use cubecl::{CubeCount, MemoryScope};
use model::BackendError;

use crate::kernels::{Kernel, Source};

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
    /// Smallest subgroup where subgroup operations are offered.
    pub subgroup: Option<u32>,
}

/// An initialised device.
///
/// Cheap to clone. Every [`Gpu::open`] takes a device of its own, so that a lost one can be replaced.
#[derive(Clone)]
pub struct Gpu {
    device: Device,
    setup: WgpuSetup,
    client: Client,
    anchor: Tensor<1>,
    info: AdapterInfo,
    spread: Spread,
    fault: Arc<Fault>,
    counts: Arc<Counts>,
    /// Reads that nobody waits for any more. burn takes the buffer of an abandoned read for free while
    /// the driver still maps it, so they are kept until they are done.
    orphans: Arc<Mutex<Vec<Words>>>,
}

/// What was asked of the device so far.
#[derive(Debug, Default)]
struct Counts {
    launches: AtomicU64,
    submits: AtomicU64,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl Gpu {
    /// Opens the fastest adapter.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] when there is no adapter or it gives no device.
    pub async fn open() -> Result<Self, BackendError> {
        let setup = acquire().await?;
        // cubecl puts a panicking error handler in place, which is replaced below.
        let device = Device::wgpu_options()
            .memory_config(MemoryConfiguration::ExclusivePages)
            // Work is submitted where this crate says so, not after a fixed count of launches.
            .tasks_max(100_000)
            .setup(setup.clone())
            .init()
            .map_err(|error| BackendError::Unavailable(error.to_string()))?;
        let fault = Arc::new(Mutex::new(None));
        setup.device.on_uncaptured_error(Arc::new({
            let fault = fault.clone();
            move |error: wgpu::Error| {
                let found = match error {
                    wgpu::Error::OutOfMemory { .. } => BackendError::Memory(error.to_string()),
                    other => BackendError::Fault(other.to_string()),
                };
                if let Ok(mut slot) = fault.lock() {
                    slot.get_or_insert(found);
                }
            }
        }));
        let info = describe(&setup);
        let anchor = Tensor::<1>::from_data([0.0f32], &device);
        let client = primitive(&anchor).client;
        let spread = if info.software {
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
            counts: Arc::default(),
            orphans: Arc::default(),
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
        self.counts = Arc::default();
        self
    }

    /// The same device as if it bound at most `bytes`, to test the splitting of matrices.
    #[must_use]
    pub fn with_max_binding(mut self, bytes: u64) -> Self {
        self.info.max_binding = self.info.max_binding.min(bytes);
        self
    }

    /// Smallest subgroup, where subgroup operations are offered.
    pub fn subgroups(&self) -> Option<u32> {
        self.info.subgroup
    }

    /// The same device as if it offered no subgroup operations.
    #[must_use]
    pub fn without_subgroups(mut self) -> Self {
        self.info.subgroup = None;
        self
    }

    /// Burn's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Kernel launches so far.
    pub fn launches(&self) -> u64 {
        self.counts.launches.load(Ordering::Relaxed)
    }

    /// Submissions of work so far; a read is one.
    pub fn submits(&self) -> u64 {
        self.counts.submits.load(Ordering::Relaxed)
    }

    /// Bytes of memory that buffers of this device hold, after giving back what is free.
    pub fn bytes_in_use(&self) -> u64 {
        // It can only fail while a graph is recorded, which this crate never does.
        let _ = self.client.memory_cleanup();
        let report = self.client.memory_report(MemoryScope::Device);
        report.usage().bytes_in_use
    }

    /// Allocates `len` floats, kept until the tensor is dropped.
    pub(crate) fn floats(&self, len: usize) -> Tensor<1> {
        Tensor::from_primitive::<Wgpu>(self.empty(len, DType::F32))
    }

    /// Allocates `len` 32-bit words, kept until the tensor is dropped.
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
    pub(crate) fn launch<K: Kernel>(&self, kernel: K, groups: [u32; 3], buffers: &[&Handle]) {
        let mut arguments = KernelArguments::new();
        for buffer in buffers {
            arguments = arguments.with_buffer((*buffer).clone().binding());
        }
        let dim = CubeDim::new_3d(kernel.group_size(), 1, 1);
        self.counts.launches.fetch_add(1, Ordering::Relaxed);
        self.client.launch(
            Box::new(burn_wgpu::SourceKernel::new(Source(kernel), dim)),
            CubeCount::Static(groups[0], groups[1], groups[2]),
            arguments,
        );
    }

    /// Hands the queued work to the GPU without waiting for it.
    pub(crate) fn submit(&self) -> Result<(), BackendError> {
        self.counts.submits.fetch_add(1, Ordering::Relaxed);
        self.client
            .flush()
            .map_err(|error| BackendError::Fault(error.to_string()))?;
        self.check()
    }

    /// Waits until the queued work is done.
    ///
    /// # Errors
    /// [`BackendError`] when some of that work failed.
    pub async fn finish(&self) -> Result<(), BackendError> {
        self.counts.submits.fetch_add(1, Ordering::Relaxed);
        let done = self.client.sync().await;
        self.release_orphans();
        self.check()?;
        done.map_err(|error| BackendError::Fault(error.to_string()))
    }

    /// Copies a buffer as it will be when all work queued so far is done, and submits that work. The
    /// answer may be awaited while more work is queued.
    pub(crate) fn read(&self, buffer: &Handle) -> Words {
        self.counts.submits.fetch_add(1, Ordering::Relaxed);
        self.release_orphans();
        let (client, fault) = (self.client.clone(), self.fault.clone());
        let buffer = buffer.clone();
        let mut read: Words = Box::pin(async move {
            let copy = client.read_async(vec![buffer]).await;
            take(&fault)?;
            let bytes = copy
                .map_err(|error| BackendError::Fault(error.to_string()))?
                .pop()
                .ok_or_else(|| BackendError::Fault("a read returned nothing".to_owned()))?;
            Ok(bytes
                .chunks_exact(4)
                .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
                .collect())
        });
        // The first poll queues the copy.
        match poll(&mut read) {
            Poll::Ready(words) => Box::pin(std::future::ready(words)),
            Poll::Pending => read,
        }
    }

    /// Takes over reads whose answer is not wanted any more.
    pub(crate) fn abandon(&self, reads: impl IntoIterator<Item = Words>) {
        if let Ok(mut orphans) = self.orphans.lock() {
            orphans.extend(reads);
        }
    }

    fn release_orphans(&self) {
        if let Ok(mut orphans) = self.orphans.lock() {
            orphans.retain_mut(|read| poll(read).is_pending());
        }
    }

    /// Reports the first fault that the driver raised since the last check.
    pub fn check(&self) -> Result<(), BackendError> {
        take(&self.fault)
    }

    /// Destroys the device, as a driver reset would. For tests of recovery.
    pub fn destroy(&self) {
        self.setup.device.destroy();
    }
}

/// A buffer's words, on their way.
pub(crate) type Words = Pin<Box<dyn Future<Output = Result<Vec<u32>, BackendError>> + Send>>;

fn poll(read: &mut Words) -> Poll<Result<Vec<u32>, BackendError>> {
    read.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

type Fault = Mutex<Option<BackendError>>;

fn take(fault: &Fault) -> Result<(), BackendError> {
    match fault.lock().ok().and_then(|mut slot| slot.take()) {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

/// Takes a device of the fastest adapter, with all that the adapter allows.
async fn acquire() -> Result<WgpuSetup, BackendError> {
    let unavailable = |error: &dyn ToString| BackendError::Unavailable(error.to_string());
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: wgpu::Backends::PRIMARY,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let adapter = instance
        .request_adapter(&wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..wgpu::RequestAdapterOptions::default()
        })
        .await
        .map_err(|error| unavailable(&error))?;
    let limits = adapter.limits();
    if limits.max_storage_buffers_per_shader_stage < 8 {
        return Err(BackendError::Unavailable(format!(
            "this adapter binds only {} buffers at once; 8 are needed",
            limits.max_storage_buffers_per_shader_stage
        )));
    }
    // burn measures its launches with timestamps and, in a browser, cannot do without them.
    if cfg!(target_family = "wasm") && !adapter.features().contains(wgpu::Features::TIMESTAMP_QUERY)
    {
        return Err(BackendError::Unavailable(
            "this browser's WebGPU has no timestamp queries".to_owned(),
        ));
    }
    let wanted = wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::SUBGROUP;
    let (device, queue) = adapter
        .request_device(&wgpu::DeviceDescriptor {
            required_features: adapter.features() & wanted,
            required_limits: limits,
            // Buffers are allocated one by one, to their size.
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..wgpu::DeviceDescriptor::default()
        })
        .await
        .map_err(|error| unavailable(&error))?;
    let backend = adapter.get_info().backend;
    Ok(WgpuSetup {
        instance,
        adapter,
        device,
        queue,
        backend,
    })
}

fn describe(setup: &WgpuSetup) -> AdapterInfo {
    let limits = setup.device.limits();
    let raw = setup.adapter.get_info();
    let parts = [raw.name.as_str(), raw.driver.as_str()];
    let name = parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(", ");
    let emulators = ["swiftshader", "llvmpipe", "lavapipe"];
    let software = raw.device_type == wgpu::DeviceType::Cpu
        || emulators
            .iter()
            .any(|emulator| name.to_lowercase().contains(emulator));
    AdapterInfo {
        name: if name.is_empty() {
            "WebGPU adapter".to_owned()
        } else {
            name
        },
        software,
        max_binding: limits.max_storage_buffer_binding_size,
        max_buffer: limits.max_buffer_size,
        subgroup: setup
            .device
            .features()
            .contains(wgpu::Features::SUBGROUP)
            .then_some(raw.subgroup_min_size),
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
