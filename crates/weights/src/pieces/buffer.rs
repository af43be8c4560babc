//! The memory that one piece is held in: ours natively, the browser's in the browser, whose memory for
//! WebAssembly never shrinks again.

#[cfg(not(target_arch = "wasm32"))]
pub(super) use native::Buffer;
#[cfg(target_arch = "wasm32")]
pub(super) use web::Buffer;

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use sha2::{Digest, Sha256};

    /// Memory for a piece.
    #[derive(Debug)]
    pub(in crate::pieces) struct Buffer(Vec<u8>);

    impl Buffer {
        /// Memory of `bytes` bytes; `None` if there is not so much.
        pub(in crate::pieces) fn new(bytes: usize) -> Option<Self> {
            let mut memory = Vec::new();
            memory.try_reserve_exact(bytes).ok()?;
            memory.resize(bytes, 0);
            Some(Self(memory))
        }

        /// Puts bytes in at `at`.
        pub(in crate::pieces) fn put(&mut self, at: usize, bytes: &[u8]) {
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
        }

        /// Copies bytes out from `at` on.
        pub(in crate::pieces) fn copy(&self, at: usize, to: &mut [u8]) {
            to.copy_from_slice(&self.0[at..at + to.len()]);
        }

        /// The SHA-256 of the first `len` bytes.
        pub(in crate::pieces) async fn digest(&self, len: usize) -> [u8; 32] {
            Sha256::digest(&self.0[..len]).into()
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod web {
    use js_sys::{Array, Function, Promise, Reflect, Uint8Array};
    use sha2::{Digest, Sha256};
    use wasm_bindgen::{JsCast, JsValue};
    use wasm_bindgen_futures::JsFuture;

    /// Bytes that are hashed at once where the browser does not hash.
    const SLICE_BYTES: usize = 1 << 20;

    /// Memory for a piece, outside of WebAssembly's.
    #[derive(Debug)]
    pub(in crate::pieces) struct Buffer(Uint8Array);

    impl Buffer {
        /// Memory of `bytes` bytes; `None` if there is not so much.
        pub(in crate::pieces) fn new(bytes: usize) -> Option<Self> {
            // Through `Reflect`, so that a refusal is an error and not the end.
            let class = Reflect::get(&js_sys::global(), &"Uint8Array".into()).ok()?;
            let class: Function = class.dyn_into().ok()?;
            let size = Array::of1(&JsValue::from(bytes as f64));
            Reflect::construct(&class, &size)
                .ok()?
                .dyn_into()
                .ok()
                .map(Self)
        }

        /// Puts bytes in at `at`.
        pub(in crate::pieces) fn put(&mut self, at: usize, bytes: &[u8]) {
            self.part(at, bytes.len()).copy_from(bytes);
        }

        /// Copies bytes out from `at` on.
        pub(in crate::pieces) fn copy(&self, at: usize, to: &mut [u8]) {
            self.part(at, to.len()).copy_to(to);
        }

        /// A view; a piece has less than 2^32 bytes.
        fn part(&self, at: usize, len: usize) -> Uint8Array {
            self.0.subarray(at as u32, (at + len) as u32)
        }

        /// The SHA-256 of the first `len` bytes: the browser's, which is quick and beside this thread,
        /// else our own.
        pub(in crate::pieces) async fn digest(&self, len: usize) -> [u8; 32] {
            if let Ok(digest) = self.browser_digest(len).await {
                return digest;
            }
            let mut sha = Sha256::new();
            let mut slice = vec![0; SLICE_BYTES.min(len)];
            for at in (0..len).step_by(SLICE_BYTES) {
                let slice = &mut slice[..SLICE_BYTES.min(len - at)];
                self.copy(at, slice);
                sha.update(slice);
            }
            sha.finalize().into()
        }

        /// There is none where the page does not come over a secure connection.
        async fn browser_digest(&self, len: usize) -> Result<[u8; 32], JsValue> {
            let crypto = Reflect::get(&js_sys::global(), &"crypto".into())?;
            let subtle = Reflect::get(&crypto, &"subtle".into())?;
            let digest: Function = Reflect::get(&subtle, &"digest".into())?.dyn_into()?;
            let promise: Promise = digest
                .call2(&subtle, &"SHA-256".into(), &self.part(0, len))?
                .dyn_into()?;
            let digest = Uint8Array::new(&JsFuture::from(promise).await?);
            let mut bytes = [0; 32];
            if digest.length() as usize != bytes.len() {
                return Err(JsValue::UNDEFINED);
            }
            digest.copy_to(&mut bytes);
            Ok(bytes)
        }
    }
}
