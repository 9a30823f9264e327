//! Learns a linear model through headroom.h. A corrupt sample overflows in one step, which is skipped. Half-way, the state is saved and
//! loaded, as if the program had been stopped. Declare further functions of headroom.h in the same way.
use std::{ffi::{CStr, CString}, os::raw::{c_char, c_void}, ptr::{null, null_mut}};

const FLOAT32: u32 = 2 << 8 | 32;
const SIZE: usize = 4;
const STEPS: usize = 600;

#[repr(C)]
struct Tensor { data: *mut c_void, size: u64, dtype: u32, ndim: i32, shape: *const i64, strides: *const i64 }
#[repr(C)] #[derive(Default)]
struct Report { struct_size: u32, finite: i32, max_abs: f64, norm: f64 }
#[repr(C)] #[derive(Default)]
struct Place { struct_size: u32, is_nan: i32, tensor: u64, index: u64, nan_count: u64, inf_count: u64 }
#[repr(C)] #[derive(Default)]
struct Step { struct_size: u32, skipped: i32, reason: i32, loss_scale: f32, report: Report, nonfinite: Place }
type Handle = *mut c_void;

#[link(name = "headroom")]
extern "C" {
    fn headroom_last_error() -> *const c_char;
    fn headroom_loss_scale_make(name: *const c_char, settings: *const c_char, out: *mut Handle) -> i32;
    fn headroom_loss_scale_free(policy: Handle);
    fn headroom_grad_scaler_make(policy: Handle, out: *mut Handle) -> i32;
    fn headroom_grad_scaler_free(scaler: Handle);
    fn headroom_grad_scaler_scale(scaler: Handle, loss: f64, scaled: *mut f64) -> i32;
    fn headroom_grad_scaler_step(scaler: Handle, optimizer: u64, grads: *const Tensor, n: usize, out: *mut Step) -> i32;
    fn headroom_grad_scaler_update(scaler: Handle) -> i32;
    fn headroom_grad_scaler_save(scaler: Handle, text: *mut c_char, size: *mut usize) -> i32;
    fn headroom_grad_scaler_load(scaler: Handle, text: *const c_char) -> i32;
}

fn check(status: i32) {
    assert!(status == 0, "{}", unsafe { CStr::from_ptr(headroom_last_error()) }.to_string_lossy());
}

fn main() {
    let (name, settings) = (CString::new("torch").unwrap(), CString::new("growth_interval = 50").unwrap());
    let (mut policy, mut scaler) = (null_mut(), null_mut());
    check(unsafe { headroom_loss_scale_make(name.as_ptr(), settings.as_ptr(), &mut policy) });
    check(unsafe { headroom_grad_scaler_make(policy, &mut scaler) }); // copies the policy
    let (mut weight, mut bias, mut scale, mut skipped) = ([0f32; SIZE], 0f32, 0f64, 0);
    let tensor = |grad: &mut [f32]| {
        Tensor { data: grad.as_mut_ptr().cast(), size: grad.len() as u64, dtype: FLOAT32, ndim: 0, shape: null(), strides: null() }
    };
    for step in 0..STEPS {
        let mut x = [0, 1, 2, 3].map(|i| (0.37 * ((SIZE * step + i) as f64).powi(2)).sin() as f32);
        let label = (0..SIZE).map(|i| i as f32 / 4.0 * x[i]).sum::<f32>() + 0.5;
        if step == 7 { x[2] = 3e38 }
        let error = (0..SIZE).map(|i| weight[i] * x[i]).sum::<f32>() + bias - label;
        check(unsafe { headroom_grad_scaler_scale(scaler, 1.0, &mut scale) });
        let factor = scale as f32 * error.clamp(-1.0, 1.0); // the gradient of scale * Huber loss
        let (mut weight_grad, mut bias_grad) = (x.map(|x| factor * x), [factor]);
        let grads = [tensor(&mut weight_grad), tensor(&mut bias_grad)];
        let mut result = Step { struct_size: std::mem::size_of::<Step>() as u32, ..Default::default() };
        check(unsafe { headroom_grad_scaler_step(scaler, 0, grads.as_ptr(), grads.len(), &mut result) }); // unscales
        if result.skipped == 0 {
            (0..SIZE).for_each(|i| weight[i] -= 0.1 * weight_grad[i]);
            bias -= 0.1 * bias_grad[0];
        } else {
            let (place, what) = (&result.nonfinite, if result.nonfinite.is_nan != 0 { "NaN" } else { "inf" });
            println!("step {step} skipped: {what} in {:?}[{}]", ["weight", "bias"][place.tensor as usize], place.index);
            skipped += 1;
        }
        check(unsafe { headroom_grad_scaler_update(scaler) });
        if step == STEPS / 2 {
            let mut size = 0;
            check(unsafe { headroom_grad_scaler_save(scaler, null_mut(), &mut size) }); // asks for the size
            let mut text = vec![0u8; size];
            check(unsafe { headroom_grad_scaler_save(scaler, text.as_mut_ptr().cast(), &mut size) });
            unsafe { headroom_grad_scaler_free(scaler) };
            check(unsafe { headroom_grad_scaler_make(policy, &mut scaler) });
            check(unsafe { headroom_grad_scaler_load(scaler, text.as_ptr().cast()) });
        }
    }
    unsafe { headroom_grad_scaler_free(scaler); headroom_loss_scale_free(policy) };
    let error = (0..SIZE).map(|i| (weight[i] - i as f32 / 4.0).abs()).fold((bias - 0.5).abs(), f32::max);
    println!("{skipped} of {STEPS} steps skipped, last scale {scale}, largest error of a weight {error:e}");
    assert!(skipped == 1 && scale == 32768.0 * 2048.0 && error < 0.001);
}
