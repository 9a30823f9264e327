import com.sun.jna.Memory;

/** Learns a linear model with clipped gradients. A corrupt sample overflows in one step, which is skipped. */
public class Train {
  static final int FEATURES = 16, STEPS = 600;
  static final String[] NAMES = {"weight", "bias"};

  static float trueWeight(int i) {
    return (i - 8) / 8F;
  }

  public static void main(String[] arguments) {
    float[] weight = new float[FEATURES], x = new float[FEATURES];
    float bias = 0, scale = 0;
    int skipped = 0;
    Memory weightGrad = new Memory(FEATURES * Float.BYTES), biasGrad = new Memory(Float.BYTES);
    Headroom.Tensor[] grads = Headroom.tensors(weightGrad, biasGrad);
    try (Headroom.GradScaler scaler = new Headroom.GradScaler("torch", "growth_interval = 50")) {
      for (int step = 0; step < STEPS; ++step) {
        float error = bias - 0.5F;
        for (int i = 0; i < FEATURES; ++i) {
          double k = FEATURES * step + i;
          x[i] = (float) Math.sin(0.37 * k * k);
          error -= trueWeight(i) * x[i];
          if (step == 7 && i == 13) x[i] = 3e38F; // corrupt
          error += weight[i] * x[i];
        }

        // The gradients of scale * Huber loss.
        scale = (float) scaler.scale(1);
        float factor = scale * Math.max(-1, Math.min(1, error));
        for (int i = 0; i < FEATURES; ++i) weightGrad.setFloat(i * Float.BYTES, factor * x[i]);
        biasGrad.setFloat(0, factor);

        scaler.unscaleAndClip(grads, 1);
        Headroom.Step result = scaler.step(grads);
        if (result.skipped == 0) {
          for (int i = 0; i < FEATURES; ++i) weight[i] -= 0.1F * weightGrad.getFloat(i * Float.BYTES);
          bias -= 0.1F * biasGrad.getFloat(0);
        } else {
          Headroom.Place place = result.nonfinite;
          System.out.printf("step %d skipped: %s in \"%s\"[%d]%n", step, place.is_nan != 0 ? "NaN" : "inf",
                            NAMES[(int) place.tensor], place.index);
          ++skipped;
        }
        scaler.update();
      }
    }
    float error = Math.abs(bias - 0.5F);
    for (int i = 0; i < FEATURES; ++i) error = Math.max(error, Math.abs(weight[i] - trueWeight(i)));
    System.out.printf("%d of %d steps skipped, last scale %g, largest error of a weight %g%n", skipped, STEPS, scale, error);
    System.exit(skipped == 1 && error < 0.001F ? 0 : 1);
  }
}
