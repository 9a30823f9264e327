import com.sun.jna.*;
import com.sun.jna.ptr.*;

/** Learns a linear model through headroom.h. A corrupt sample overflows in one step, which is skipped. Half-way, the state is saved and
 *  loaded. size_t is a long: this is for 64-bit systems. Declare further functions of headroom.h in the same way. */
public class Train {
  public interface Headroom extends Library {
    String headroom_last_error();
    int headroom_loss_scale_make(String name, String settings, PointerByReference out);
    void headroom_loss_scale_free(Pointer policy);
    int headroom_grad_scaler_make(Pointer policy, PointerByReference out);
    void headroom_grad_scaler_free(Pointer scaler);
    int headroom_grad_scaler_scale(Pointer scaler, double loss, DoubleByReference scaled);
    int headroom_grad_scaler_step(Pointer scaler, long optimizer, Tensor[] grads, long n, Step out);
    int headroom_grad_scaler_update(Pointer scaler);
    int headroom_grad_scaler_save(Pointer scaler, byte[] text, LongByReference size);
    int headroom_grad_scaler_load(Pointer scaler, byte[] text);
  }
  @Structure.FieldOrder({"data", "size", "dtype", "ndim", "shape", "strides"})
  public static class Tensor extends Structure { public Pointer data, shape, strides; public long size; public int dtype, ndim; }
  @Structure.FieldOrder({"struct_size", "skipped", "reason", "loss_scale", "report_size", "finite", "max_abs", "norm", "place_size", "is_nan", "tensor",
               "index", "nan_count", "inf_count"})
  public static class Step extends Structure { // with its report and its place
    public int struct_size, skipped, reason, report_size, finite, place_size, is_nan;
    public float loss_scale; public double max_abs, norm; public long tensor, index, nan_count, inf_count;
  }
  static final Headroom C = Native.load(System.getProperty("headroom.library", "headroom"), Headroom.class);
  static final int SIZE = 4, STEPS = 600, FLOAT32 = 2 << 8 | 32;
  static void check(int status) { if (status != 0) throw new IllegalStateException(C.headroom_last_error()); }

  public static void main(String[] arguments) {
    PointerByReference policy = new PointerByReference(), scaler = new PointerByReference();
    check(C.headroom_loss_scale_make("torch", "growth_interval = 50", policy));
    check(C.headroom_grad_scaler_make(policy.getValue(), scaler)); // copies the policy
    Memory[] memory = {new Memory(SIZE * 4), new Memory(4)}; // of the gradients
    Tensor[] grads = (Tensor[]) new Tensor().toArray(2);
    for (int i = 0; i < 2; ++i) { grads[i].data = memory[i]; grads[i].size = memory[i].size() / 4; grads[i].dtype = FLOAT32; }
    float[] weight = new float[SIZE], x = new float[SIZE];
    float bias = 0, worst = 0;
    int skipped = 0;
    DoubleByReference scale = new DoubleByReference();
    Step result = new Step();
    for (int step = 0; step < STEPS; ++step) {
      float error = bias - 0.5F;
      for (int i = 0; i < SIZE; ++i) {
        x[i] = (float) Math.sin(0.37 * Math.pow(SIZE * step + i, 2));
        error -= i / 4F * x[i];
        if (step == 7 && i == 2) x[i] = 3e38F; // corrupt
        error += weight[i] * x[i];
      }
      check(C.headroom_grad_scaler_scale(scaler.getValue(), 1, scale));
      float factor = (float) scale.getValue() * Math.max(-1, Math.min(1, error)); // the gradient of scale * Huber loss
      for (int i = 0; i < SIZE; ++i) memory[0].setFloat(i * 4, factor * x[i]);
      memory[1].setFloat(0, factor);
      result.struct_size = result.size();
      check(C.headroom_grad_scaler_step(scaler.getValue(), 0, grads, 2, result)); // unscales
      if (result.skipped == 0) {
        for (int i = 0; i < SIZE; ++i) weight[i] -= 0.1F * memory[0].getFloat(i * 4);
        bias -= 0.1F * memory[1].getFloat(0);
      } else {
        ++skipped;
        String what = result.is_nan != 0 ? "NaN" : "inf", tensor = result.tensor == 0 ? "weight" : "bias";
        System.out.printf("step %d skipped: %s in \"%s\"[%d]%n", step, what, tensor, result.index);
      }
      check(C.headroom_grad_scaler_update(scaler.getValue()));
      if (step == STEPS / 2) {
        byte[] text = new byte[4096];
        check(C.headroom_grad_scaler_save(scaler.getValue(), text, new LongByReference(text.length)));
        C.headroom_grad_scaler_free(scaler.getValue());
        check(C.headroom_grad_scaler_make(policy.getValue(), scaler));
        check(C.headroom_grad_scaler_load(scaler.getValue(), text));
      }
    }
    C.headroom_grad_scaler_free(scaler.getValue());
    C.headroom_loss_scale_free(policy.getValue());
    for (int i = 0; i < SIZE; ++i) worst = Math.max(worst, Math.max(Math.abs(weight[i] - i / 4F), Math.abs(bias - 0.5F)));
    System.out.printf("%d of %d steps skipped, last scale %g, largest error of a weight %g%n", skipped, STEPS, scale.getValue(), worst);
    System.exit(skipped == 1 && scale.getValue() == 32768.0 * 2048 && worst < 0.001F ? 0 : 1);
  }
}
