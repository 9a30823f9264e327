//! Learns a linear model with fp16 gradients. A corrupt sample overflows in one step, which is skipped. The backward pass of another
//! step fails, and its iteration is abandoned.
use headroom::{Float16, GradScaler, LossScale, Skipped, Tensor, TensorMut};

const FEATURES: usize = 16;
const STEPS: usize = 600;
/// The loss is a mean over so many outputs that its gradients are 0 in fp16, unless the loss is scaled.
const OUTPUTS: f32 = 4e8;

#[derive(Default)]
struct Model {
    weight: [f32; FEATURES],
    bias: [f32; 1],
}

fn true_weight(i: usize) -> f32 {
    (i as f32 - 8.0) / 8.0
}

fn sample(step: usize) -> ([f32; FEATURES], f32) {
    let mut x = [0.0; FEATURES];
    let mut label = 0.5;
    for i in 0..FEATURES {
        let k = (FEATURES * step + i) as f64;
        x[i] = (0.37 * k * k).sin() as f32;
        label += true_weight(i) * x[i];
    }
    if step == 7 {
        x[13] = 1e30; // corrupt
    }
    (x, label)
}

/// The gradients of scale * Huber loss / OUTPUTS.
fn backward(model: &Model, step: usize, scale: f32) -> Result<Model, String> {
    if step == 20 {
        return Err("no such sample".into());
    }
    let (x, label) = sample(step);
    let error = model.bias[0] - label + x.iter().zip(&model.weight).map(|(x, w)| x * w).sum::<f32>();
    let factor = scale * error.clamp(-1.0, 1.0) / OUTPUTS;
    Ok(Model { weight: x.map(|x| factor * x), bias: [factor] })
}

/// Whether the step was taken.
fn train_step(model: &mut Model, scaler: &mut GradScaler, step: usize) -> Result<bool, Box<dyn std::error::Error>> {
    let mut iteration = scaler.begin()?;
    let mut grads = backward(model, step, iteration.scale as f32)?; // an error abandons the iteration
    let (mut weight16, mut bias16) = ([Float16::default(); FEATURES], [Float16::default(); 1]);
    headroom::cast(
        &[Tensor::from(&grads.weight[..]), Tensor::from(&grads.bias[..])],
        &mut [TensorMut::from(&mut weight16[..]), TensorMut::from(&mut bias16[..])],
        false,
        1,
    )?; // a network in fp16 computes such gradients itself

    let from = [Tensor::from(&weight16[..]), Tensor::from(&bias16[..])];
    let result = iteration.step_into(0, &from, &mut [(&mut grads.weight[..]).into(), (&mut grads.bias[..]).into()])?;
    match &result.skipped {
        None => {
            let rate = 0.1 * OUTPUTS;
            model.weight.iter_mut().zip(&grads.weight).for_each(|(w, g)| *w -= rate * g);
            model.bias[0] -= rate * grads.bias[0];
        }
        Some(Skipped::NotFinite(Some(place))) => {
            let what = if place.is_nan != 0 { "NaN" } else { "inf" };
            println!("step {step} skipped: {what} in {:?}[{}]", ["weight", "bias"][place.tensor as usize], place.index);
        }
        Some(_) => println!("step {step} skipped"),
    }
    iteration.update()?;
    Ok(result.skipped.is_none())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut scaler = GradScaler::new(Some(&LossScale::new("torch", "growth_interval = 50")?))?;
    let mut model = Model::default();
    let mut taken = 0;
    for step in 0..STEPS {
        match train_step(&mut model, &mut scaler, step) {
            Ok(is_taken) => taken += is_taken as usize,
            Err(error) => println!("step {step} abandoned: {error}"),
        }
        if step == STEPS / 2 {
            let state = scaler.save()?;
            scaler = GradScaler::new(None)?;
            scaler.load(&state)?;
        }
    }
    let scale = scaler.begin()?.scale;
    let error = (0..FEATURES).map(|i| (model.weight[i] - true_weight(i)).abs()).fold((model.bias[0] - 0.5).abs(), f32::max);
    println!("{taken} of {STEPS} steps taken, last scale {scale:e}, largest error of a weight {error:e}");
    if taken != STEPS - 2 || scale != 32768.0 * 2048.0 || error > 0.001 {
        return Err("this is not what it should have learned".into());
    }
    Ok(())
}
