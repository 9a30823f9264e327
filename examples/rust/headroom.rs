//! A safe interface to headroom.h. Errors are values, handles free themselves, and the compiler sees what a call reads and writes.
//! As a crate it is lib.rs beside headroom_sys.rs.
//!
//! ```compile_fail
//! let mut grads = vec![0.0f32; 4];
//! let tensor = headroom::TensorMut::from(&mut grads[..]);
//! drop(grads); // error[E0505]: still borrowed
//! drop(tensor);
//! ```
//! ```compile_fail
//! let mut scaler = headroom::GradScaler::new(None).unwrap();
//! let iteration = scaler.begin().unwrap();
//! scaler.save().unwrap(); // error[E0502]: inside an iteration
//! iteration.update().unwrap();
//! ```
//! ```
//! let mut grads = [65536.0f32, f32::INFINITY];
//! let mut scaler = headroom::GradScaler::new(None).unwrap();
//! let mut iteration = scaler.begin().unwrap();
//! let step = iteration.step(0, &mut [grads[..].as_mut().into()]).unwrap();
//! assert!(matches!(step.skipped, Some(headroom::Skipped::NotFinite(Some(place))) if place.index == 1));
//! iteration.update().unwrap();
//! ```

pub mod headroom_sys;

use headroom_sys as sys;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::raw::c_char;
use std::ptr::{null, null_mut};

/// A call that failed.
#[derive(Debug)]
pub struct Error {
    pub status: i32,
    pub message: String,
}
impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Error {}
pub type Result<T> = std::result::Result<T, Error>;

fn check(status: i32) -> Result<()> {
    if status == sys::HEADROOM_OK {
        return Ok(());
    }
    let message = unsafe { CStr::from_ptr(sys::headroom_last_error()) };
    Err(Error { status, message: message.to_string_lossy().into_owned() })
}

/// # Safety
/// The type has the size and format of `DTYPE`.
pub unsafe trait Element: Copy {
    const DTYPE: u32;
}
macro_rules! elements {
    ($($name:ty = $dtype:ident;)*) => { $(unsafe impl Element for $name { const DTYPE: u32 = sys::$dtype; })* };
}
elements! { f32 = HEADROOM_FLOAT32; f64 = HEADROOM_FLOAT64; Float16 = HEADROOM_FLOAT16; Bfloat16 = HEADROOM_BFLOAT16; }
/// The bits of a 16-bit float.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Float16(pub u16);
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Bfloat16(pub u16);

/// Elements that a call reads.
#[repr(transparent)]
pub struct Tensor<'a>(sys::headroom_tensor, PhantomData<&'a [u8]>);
/// Elements that a call writes.
#[repr(transparent)]
pub struct TensorMut<'a>(sys::headroom_tensor, PhantomData<&'a mut [u8]>);

fn describe<T: Element>(data: *mut T, size: usize) -> sys::headroom_tensor {
    sys::headroom_tensor { data: data.cast(), size: size as u64, dtype: T::DTYPE, ndim: 0, shape: null(), strides: null() }
}
impl<'a, T: Element> From<&'a [T]> for Tensor<'a> {
    fn from(elements: &'a [T]) -> Self {
        Tensor(describe(elements.as_ptr() as *mut T, elements.len()), PhantomData)
    }
}
impl<'a, T: Element> From<&'a mut [T]> for TensorMut<'a> {
    fn from(elements: &'a mut [T]) -> Self {
        TensorMut(describe(elements.as_mut_ptr(), elements.len()), PhantomData)
    }
}

pub type Report = sys::headroom_report;
fn report() -> Report {
    Report { struct_size: size_of::<Report>() as u32, ..Report::default() }
}
/// Rounds the elements of `from` to the dtypes of `to`.
pub fn cast(from: &[Tensor], to: &mut [TensorMut], saturate: bool, threads: i32) -> Result<()> {
    assert_eq!(from.len(), to.len());
    check(unsafe { sys::headroom_cast(from.as_ptr().cast(), to.as_mut_ptr().cast(), to.len(), saturate.into(), threads) })
}
/// Clips to an L2 norm of at most `max_norm` over all tensors.
pub fn clip(tensors: &mut [TensorMut], max_norm: f64, threads: i32) -> Result<Report> {
    let mut out = report();
    check(unsafe { sys::headroom_clip_by_global_norm(tensors.as_mut_ptr().cast(), tensors.len(), max_norm, threads, &mut out) })?;
    Ok(out)
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|e| Error { status: 1, message: e.to_string() })
}
/// A policy: holds the loss scale.
pub struct LossScale(*mut sys::headroom_loss_scale);
impl LossScale {
    /// `settings` are lines `key = value`.
    pub fn new(name: &str, settings: &str) -> Result<Self> {
        let mut policy = LossScale(null_mut());
        check(unsafe { sys::headroom_loss_scale_make(c_text(name)?.as_ptr(), c_text(settings)?.as_ptr(), &mut policy.0) })?;
        Ok(policy)
    }
}
impl Drop for LossScale {
    fn drop(&mut self) {
        unsafe { sys::headroom_loss_scale_free(self.0) }
    }
}

/// If `skipped` is None, the caller steps its optimizer now.
#[derive(Debug)]
#[must_use]
pub struct Step {
    pub skipped: Option<Skipped>,
    pub loss_scale: f32,
    pub report: Report,
}
#[derive(Debug)]
pub enum Skipped {
    /// None: only another rank or the norm overflowed.
    NotFinite(Option<sys::headroom_place>),
    NoGradients,
}
fn step(call: impl Fn(*mut sys::headroom_step) -> i32) -> Result<Step> {
    let mut out = sys::headroom_step { struct_size: size_of::<sys::headroom_step>() as u32, ..Default::default() };
    check(call(&mut out))?;
    let place = out.nonfinite;
    let skipped = match (out.skipped, out.reason) {
        (0, _) => None,
        (_, sys::HEADROOM_SKIP_NOT_FINITE) => Some(Skipped::NotFinite(Some(place).filter(|p| p.nan_count + p.inf_count > 0))),
        _ => Some(Skipped::NoGradients),
    };
    Ok(Step { skipped, loss_scale: out.loss_scale, report: out.report })
}

pub struct GradScaler(*mut sys::headroom_grad_scaler);
unsafe impl Send for GradScaler {}
impl GradScaler {
    /// With a copy of the policy, or with that of torch.
    pub fn new(policy: Option<&LossScale>) -> Result<Self> {
        let mut scaler = GradScaler(null_mut());
        check(unsafe { sys::headroom_grad_scaler_make(policy.map_or(null(), |p| p.0), &mut scaler.0) })?;
        Ok(scaler)
    }
    pub fn set_threads(&mut self, threads: i32) -> Result<()> {
        check(unsafe { sys::headroom_grad_scaler_set_threads(self.0, threads) })
    }
    /// `update` ends the iteration. If it is dropped before, it is abandoned.
    pub fn begin(&mut self) -> Result<Iteration<'_>> {
        let mut scale = 0.0;
        check(unsafe { sys::headroom_grad_scaler_scale(self.0, 1.0, &mut scale) })?;
        Ok(Iteration { scaler: self, scale })
    }
    pub fn save(&self) -> Result<String> {
        let mut size = 0;
        check(unsafe { sys::headroom_grad_scaler_save(self.0, null_mut(), &mut size) })?;
        let mut text = vec![0u8; size];
        check(unsafe { sys::headroom_grad_scaler_save(self.0, text.as_mut_ptr() as *mut c_char, &mut size) })?;
        text.truncate(size - 1);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
    pub fn load(&mut self, state: &str) -> Result<()> {
        check(unsafe { sys::headroom_grad_scaler_load(self.0, c_text(state)?.as_ptr()) })
    }
}
impl Drop for GradScaler {
    fn drop(&mut self) {
        unsafe { sys::headroom_grad_scaler_free(self.0) }
    }
}

pub struct Iteration<'a> {
    scaler: &'a mut GradScaler,
    /// The factor of the loss.
    pub scale: f64,
}
impl Iteration<'_> {
    pub fn unscale_and_clip(&mut self, optimizer: u64, grads: &mut [TensorMut], max_norm: f64) -> Result<Report> {
        let (s, list, n, mut out) = (self.scaler.0, grads.as_mut_ptr().cast(), grads.len(), report());
        check(unsafe { sys::headroom_grad_scaler_unscale_and_clip(s, optimizer, list, n, max_norm, &mut out) })?;
        Ok(out)
    }
    pub fn step(&mut self, optimizer: u64, grads: &mut [TensorMut]) -> Result<Step> {
        let (s, list, n) = (self.scaler.0, grads.as_mut_ptr().cast(), grads.len());
        step(|out| unsafe { sys::headroom_grad_scaler_step(s, optimizer, list, n, out) })
    }
    /// Unscales gradients of any dtype into `to`.
    pub fn step_into(&mut self, optimizer: u64, from: &[Tensor], to: &mut [TensorMut]) -> Result<Step> {
        assert_eq!(from.len(), to.len());
        let (s, n, from, to) = (self.scaler.0, to.len(), from.as_ptr().cast(), to.as_mut_ptr().cast());
        step(|out| unsafe { sys::headroom_grad_scaler_step_into(s, optimizer, from, to, n, out) })
    }
    /// Adjusts the scale.
    pub fn update(self) -> Result<()> {
        check(unsafe { sys::headroom_grad_scaler_update(self.scaler.0) })?;
        std::mem::forget(self);
        Ok(())
    }
}
impl Drop for Iteration<'_> {
    fn drop(&mut self) {
        unsafe { sys::headroom_grad_scaler_abandon(self.scaler.0) };
    }
}
