//! The declarations of headroom.h, which documents them. headroom.rs is the safe interface.
#![allow(non_camel_case_types)]
#![cfg_attr(rustfmt, rustfmt_skip)]

use std::os::raw::{c_char, c_void};

pub type headroom_status = i32;
pub const HEADROOM_OK: i32 = 0;
pub const HEADROOM_ABI: u32 = 1;
pub const HEADROOM_SKIP_NOT_FINITE: i32 = 1;

pub const HEADROOM_FLOAT16: u32 = 2 << 8 | 16;
pub const HEADROOM_FLOAT32: u32 = 2 << 8 | 32;
pub const HEADROOM_FLOAT64: u32 = 2 << 8 | 64;
pub const HEADROOM_BFLOAT16: u32 = 4 << 8 | 16;
pub const HEADROOM_FLOAT8_E4M3FN: u32 = 10 << 8 | 8;
pub const HEADROOM_FLOAT8_E5M2: u32 = 12 << 8 | 8;

#[repr(C)]
pub struct headroom_tensor {
    pub data: *mut c_void, pub size: u64, pub dtype: u32, pub ndim: i32, pub shape: *const i64,
    pub strides: *const i64,
}
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct headroom_report {
    pub struct_size: u32, pub finite: i32, pub max_abs: f64, pub norm: f64,
}
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct headroom_place {
    pub struct_size: u32, pub is_nan: i32, pub tensor: u64, pub index: u64, pub nan_count: u64,
    pub inf_count: u64,
}
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct headroom_step {
    pub struct_size: u32, pub skipped: i32, pub reason: i32, pub loss_scale: f32,
    pub report: headroom_report, pub nonfinite: headroom_place,
}
pub enum headroom_loss_scale {}
pub enum headroom_grad_scaler {}
use headroom_grad_scaler as scaler;
use headroom_loss_scale as policy;
type status = headroom_status;
type tensors = *const headroom_tensor;
type report = *mut headroom_report;
type step = *mut headroom_step;
type reducer = extern "C" fn(*mut c_void, finite: *mut i32, max_abs: *mut f64, sum_of_squares: *mut f64, digest: u64) -> status;

#[link(name = "headroom")]
extern "C" {
    pub fn headroom_last_error() -> *const c_char;
    pub fn headroom_version() -> *const c_char;
    pub fn headroom_abi() -> u32;
    pub fn headroom_from_dlpack(dl_tensor: *const c_void, out: *mut headroom_tensor) -> status;
    pub fn headroom_scale_in_place(t: tensors, n: usize, factor: f64, threads: i32) -> status;
    pub fn headroom_unscale_in_place(t: tensors, n: usize, scale: f32, threads: i32, out: report) -> status;
    pub fn headroom_unscale_into(from: tensors, to: tensors, n: usize, scale: f32, threads: i32, out: report) -> status;
    pub fn headroom_accumulate_into(from: tensors, to: tensors, n: usize, scale: f32, threads: i32, out: report) -> status;
    pub fn headroom_unscale_and_clip_in_place(t: tensors, n: usize, scale: f32, max_norm: f64, threads: i32, out: report) -> status;
    pub fn headroom_clip_by_global_norm(t: tensors, n: usize, max_norm: f64, threads: i32, out: report) -> status;
    pub fn headroom_measure(t: tensors, n: usize, threads: i32, out: report) -> status;
    pub fn headroom_cast(from: tensors, to: tensors, n: usize, saturate: i32, threads: i32) -> status;
    pub fn headroom_find_nonfinite(t: tensors, n: usize, threads: i32, out: *mut headroom_place, found: *mut i32) -> status;
    pub fn headroom_quantize(from: tensors, to: tensors, n: usize, scales: *const f32, max_abs: *mut f32, threads: i32,
                             out: report) -> status;
    pub fn headroom_dequantize(from: tensors, to: tensors, n: usize, inverse_scales: *const f32, threads: i32) -> status;
    pub fn headroom_loss_scale_make(name: *const c_char, settings: *const c_char, out: *mut *mut policy) -> status;
    pub fn headroom_loss_scale_free(p: *mut policy);
    pub fn headroom_loss_scale_get(p: *const policy) -> f32;
    pub fn headroom_loss_scale_adjust(p: *mut policy, finite: i32, max_abs: f64) -> status;
    pub fn headroom_loss_scale_save(p: *const policy, text: *mut c_char, size: *mut usize) -> status;
    pub fn headroom_loss_scale_load(text: *const c_char, out: *mut *mut policy) -> status;
    pub fn headroom_grad_scaler_make(p: *const policy, out: *mut *mut scaler) -> status;
    pub fn headroom_grad_scaler_free(s: *mut scaler);
    pub fn headroom_grad_scaler_get_scale(s: *const scaler) -> f32;
    pub fn headroom_grad_scaler_set_threads(s: *mut scaler, threads: i32) -> status;
    pub fn headroom_grad_scaler_set_reducer(s: *mut scaler, f: Option<reducer>, context: *mut c_void) -> status;
    pub fn headroom_grad_scaler_scale(s: *mut scaler, loss: f64, scaled: *mut f64) -> status;
    pub fn headroom_grad_scaler_unscale(s: *mut scaler, id: u64, t: tensors, n: usize, out: report) -> status;
    pub fn headroom_grad_scaler_unscale_and_clip(s: *mut scaler, id: u64, t: tensors, n: usize, max_norm: f64,
                                                 out: report) -> status;
    pub fn headroom_grad_scaler_step(s: *mut scaler, id: u64, t: tensors, n: usize, out: step) -> status;
    pub fn headroom_grad_scaler_step_into(s: *mut scaler, id: u64, from: tensors, to: tensors, n: usize, out: step) -> status;
    pub fn headroom_grad_scaler_update(s: *mut scaler) -> status;
    pub fn headroom_grad_scaler_abandon(s: *mut scaler) -> status;
    pub fn headroom_grad_scaler_save(s: *const scaler, text: *mut c_char, size: *mut usize) -> status;
    pub fn headroom_grad_scaler_load(s: *mut scaler, text: *const c_char) -> status;
}
