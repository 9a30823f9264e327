import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.Structure;
import com.sun.jna.Structure.FieldOrder;
import com.sun.jna.ptr.DoubleByReference;
import com.sun.jna.ptr.PointerByReference;

/** What a training loop needs of headroom.h, through JNA. size_t is a long: this is for 64-bit systems. */
public interface Headroom extends Library {
  /** The library: libheadroom.so, or the file named by the property headroom.library. */
  Headroom C = Native.load(System.getProperty("headroom.library", "headroom"), Headroom.class);
  int FLOAT32 = 2 << 8 | 32;

  @FieldOrder({"data", "size", "dtype", "ndim", "shape", "strides"})
  class Tensor extends Structure {
    public Pointer data, shape, strides;
    public long size;
    public int dtype, ndim;
  }
  @FieldOrder({"struct_size", "finite", "max_abs", "norm"})
  class Report extends Structure {
    public int struct_size = size(), finite;
    public double max_abs, norm;
  }
  @FieldOrder({"struct_size", "is_nan", "tensor", "index", "nan_count", "inf_count"})
  class Place extends Structure {
    public int struct_size = size(), is_nan;
    public long tensor, index, nan_count, inf_count;
  }
  @FieldOrder({"struct_size", "skipped", "reason", "loss_scale", "report", "nonfinite"})
  class Step extends Structure {
    public int struct_size, skipped, reason;
    public float loss_scale;
    public Report report;
    public Place nonfinite;

    public Step() {
      struct_size = size();
    }
  }

  String headroom_last_error();
  int headroom_loss_scale_make(String name, String settings, PointerByReference out);
  void headroom_loss_scale_free(Pointer policy);
  int headroom_grad_scaler_make(Pointer policy, PointerByReference out);
  void headroom_grad_scaler_free(Pointer scaler);
  int headroom_grad_scaler_scale(Pointer scaler, double loss, DoubleByReference scaled);
  int headroom_grad_scaler_unscale_and_clip(Pointer scaler, long optimizer, Tensor[] grads, long n, double maxNorm, Report out);
  int headroom_grad_scaler_step(Pointer scaler, long optimizer, Tensor[] grads, long n, Step out);
  int headroom_grad_scaler_update(Pointer scaler);

  static void check(int status) {
    if (status == 1) throw new IllegalArgumentException(C.headroom_last_error());
    if (status != 0) throw new IllegalStateException(C.headroom_last_error());
  }

  /** Tensors of float over native memory, in one array of structures, as a call takes them. */
  static Tensor[] tensors(Memory... memories) {
    Tensor[] tensors = (Tensor[]) new Tensor().toArray(memories.length);
    for (int i = 0; i < memories.length; ++i) {
      tensors[i].data = memories[i];
      tensors[i].size = memories[i].size() / Float.BYTES;
      tensors[i].dtype = FLOAT32;
    }
    return tensors;
  }

  /** torch.amp.GradScaler. The memory of the gradients must live as long as the tensors are used. */
  class GradScaler implements AutoCloseable {
    private Pointer scaler;

    public GradScaler(String policy, String settings) {
      PointerByReference made = new PointerByReference(), out = new PointerByReference();
      check(C.headroom_loss_scale_make(policy, settings, made));
      int status = C.headroom_grad_scaler_make(made.getValue(), out);
      C.headroom_loss_scale_free(made.getValue());
      check(status);
      scaler = out.getValue();
    }
    /** The scaled loss. A hand-written backward starts from scale(1). */
    public double scale(double loss) {
      DoubleByReference scaled = new DoubleByReference();
      check(C.headroom_grad_scaler_scale(scaler, loss, scaled));
      return scaled.getValue();
    }
    public Report unscaleAndClip(Tensor[] grads, double maxNorm) {
      Report report = new Report();
      check(C.headroom_grad_scaler_unscale_and_clip(scaler, 0, grads, grads.length, maxNorm, report));
      return report;
    }
    /** If the result is not skipped, the caller steps its optimizer. */
    public Step step(Tensor[] grads) {
      Step step = new Step();
      check(C.headroom_grad_scaler_step(scaler, 0, grads, grads.length, step));
      return step;
    }
    public void update() {
      check(C.headroom_grad_scaler_update(scaler));
    }
    @Override public void close() {
      C.headroom_grad_scaler_free(scaler);
      scaler = null;
    }
  }
}
