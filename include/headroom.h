/* headroom: loss scaling for mixed-precision training, for C99 and every language that calls C. docs/c.md has a training loop.
 *
 * - A function that can fail returns a headroom_status. headroom_last_error() is its message. If a call fails, it has written
 *   nothing; headroom_reducer has the only exception. No C++ exception leaves the library.
 * - Tensors are borrowed for the call, with their shapes and strides. docs/contract.md lists what tensors must satisfy.
 * - The caller frees handles. Freeing NULL does nothing. One thread at a time uses a handle. Functions without a handle may be
 *   called from any thread.
 * - Out-parameters come last. A headroom_report*, headroom_place* or headroom_step* may be NULL. Otherwise set its struct_size
 *   to the size of the struct before each call. The library writes at most that many bytes, and stores how many.
 * - Later versions may add functions, and members at the end of headroom_step. Nothing else changes without a new HEADROOM_ABI.
 */
#ifndef HEADROOM_H
#define HEADROOM_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(HEADROOM_C_BUILD)
#define HEADROOM_API __declspec(dllexport)
#elif defined(_WIN32) && !defined(HEADROOM_C_STATIC)
#define HEADROOM_API __declspec(dllimport)
#elif defined(__GNUC__)
#define HEADROOM_API __attribute__((visibility("default")))
#else
#define HEADROOM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors and versions ---- */

typedef int32_t headroom_status; /* HEADROOM_OK, or the kind of error */
enum {
  HEADROOM_OK = 0,
  HEADROOM_INVALID_ARGUMENT = 1, /* the message names the argument, and the tensor by its index */
  HEADROOM_LOGIC_ERROR = 2,      /* calls in the wrong order; the message says what to call */
  HEADROOM_OUT_OF_MEMORY = 3,
  HEADROOM_RUNTIME_ERROR = 4 /* for example, a reducer has failed */
};

/* What was wrong in the last call of this thread that failed. It begins with "headroom: ". Valid until the next such call. */
HEADROOM_API const char* headroom_last_error(void);
HEADROOM_API const char* headroom_version(void); /* of the library: MAJOR.MINOR.PATCH */
HEADROOM_API uint32_t headroom_abi(void);        /* of the library; must equal HEADROOM_ABI */
#define HEADROOM_ABI 1                           /* of the header */

/* ---- tensors ---- */

/* DLPack's type code << 8 | bits. Integers and booleans (codes 0, 1 and 6) are left alone. Other dtypes are errors, also 0. */
typedef uint32_t headroom_dtype;
enum {
  HEADROOM_FLOAT16 = 2 << 8 | 16,
  HEADROOM_FLOAT32 = 2 << 8 | 32,
  HEADROOM_FLOAT64 = 2 << 8 | 64,
  HEADROOM_BFLOAT16 = 4 << 8 | 16,
  HEADROOM_FLOAT8_E4M3FN = 10 << 8 | 8,
  HEADROOM_FLOAT8_E5M2 = 12 << 8 | 8
};

/* A tensor in the memory of the caller. */
typedef struct headroom_tensor {
  void* data;             /* the first element; may be NULL if there are none */
  uint64_t size;          /* number of elements; if ndim is not 0, it may be 0 instead of the product of the shape */
  headroom_dtype dtype;   /* of the elements */
  int32_t ndim;           /* 0: contiguous elements, whatever their shape; otherwise up to 16 */
  const int64_t* shape;   /* ndim numbers; NULL if ndim is 0 */
  const int64_t* strides; /* ndim numbers, in elements; NULL: row-major without gaps */
} headroom_tensor;

/* From a DLTensor* in the memory of the host. For a managed tensor pass &managed->dl_tensor, and do not write into a read-only
 * one. `out` points to the shape and strides of the DLTensor. */
HEADROOM_API headroom_status headroom_from_dlpack(const void* dl_tensor, headroom_tensor* out);

/* ---- what a call has found ---- */

/* Of a pass over gradients. */
typedef struct headroom_report {
  uint32_t struct_size; /* set by the caller */
  int32_t finite;       /* 1: no Inf and no NaN */
  double max_abs;       /* the largest magnitude after unscaling, before clipping; Inf if not finite, 0 without elements */
  double norm;          /* L2, before clipping; Inf if not finite, -1 if the call does not measure it */
} headroom_report;

/* The first Inf or NaN. */
typedef struct headroom_place {
  uint32_t struct_size; /* set by the caller */
  int32_t is_nan;       /* 0: Inf */
  uint64_t tensor;      /* index in the list */
  uint64_t index;       /* of the element in the tensor, in memory order; gaps do not count */
  uint64_t nan_count;   /* of the whole list; both counts are 0 if there is none */
  uint64_t inf_count;   /* of the whole list */
} headroom_place;

/* ---- verbs on a list of n tensors ----
 * All tensors are checked before anything is written. threads: 0 or 1 is the calling thread; the results do not depend on it.
 * Every result is rounded to the dtype of its tensor. loss_scale is in [2^-126, 2^126]. `from` and `to` have n tensors each,
 * with the same sizes and shapes, and may have other dtypes; see docs/contract.md for overlaps. */

/* In place. */
HEADROOM_API headroom_status headroom_scale(const headroom_tensor* tensors, size_t n, double factor, int32_t threads);
/* In place. fp16 gradients become 0 below 2^-25: unscale them into floats instead. */
HEADROOM_API headroom_status headroom_unscale(const headroom_tensor* tensors, size_t n, float loss_scale, int32_t threads,
                                              headroom_report* report);
/* to = from / loss_scale */
HEADROOM_API headroom_status headroom_unscale_into(const headroom_tensor* from, const headroom_tensor* to, size_t n,
                                                   float loss_scale, int32_t threads, headroom_report* report);
/* to += from / loss_scale; the report is that of the addends. */
HEADROOM_API headroom_status headroom_accumulate_into(const headroom_tensor* from, const headroom_tensor* to, size_t n,
                                                      float loss_scale, int32_t threads, headroom_report* report);
/* Unscales in place and clips to an L2 norm of at most max_norm over all tensors. */
HEADROOM_API headroom_status headroom_unscale_and_clip(const headroom_tensor* tensors, size_t n, float loss_scale,
                                                       double max_norm, int32_t threads, headroom_report* report);
/* Tensors with Inf or NaN are not clipped: step only if report->finite. */
HEADROOM_API headroom_status headroom_clip(const headroom_tensor* tensors, size_t n, double max_norm, int32_t threads,
                                           headroom_report* report);
/* Only reads. */
HEADROOM_API headroom_status headroom_measure(const headroom_tensor* tensors, size_t n, int32_t threads,
                                              headroom_report* report);
/* saturate: numbers that are too large become the largest finite one, not Inf. */
HEADROOM_API headroom_status headroom_cast(const headroom_tensor* from, const headroom_tensor* to, size_t n, int32_t saturate,
                                           int32_t threads);
/* Reads every element: call it after an overflow. *found is 1 or 0. */
HEADROOM_API headroom_status headroom_find_nonfinite(const headroom_tensor* tensors, size_t n, int32_t threads,
                                                     headroom_place* place, int32_t* found);

/* to[i] = from[i] * scales[i] in an 8-bit dtype, saturated. max_abs[i], if max_abs is not NULL, becomes the largest magnitude
 * of from[i]. All tensors must be floating-point. See docs/fp8.md for scales. */
HEADROOM_API headroom_status headroom_quantize(const headroom_tensor* from, const headroom_tensor* to, size_t n,
                                               const float* scales, float* max_abs, int32_t threads, headroom_report* report);
/* to[i] = from[i] * inverse_scales[i] */
HEADROOM_API headroom_status headroom_dequantize(const headroom_tensor* from, const headroom_tensor* to, size_t n,
                                                 const float* inverse_scales, int32_t threads);

/* ---- a policy: holds the loss scale and adjusts it ---- */

typedef struct headroom_loss_scale headroom_loss_scale; /* a policy */

/* name: "dynamic", "torch", "amax", ... (an unknown one is an error that lists all). settings: lines `key = value`, such as
 * "initial_scale = 1024.0\ngrowth_interval = 500", or NULL. Keys are the members of the policy's configuration in
 * docs/reference.md, for presets, too. */
HEADROOM_API headroom_status headroom_loss_scale_make(const char* name, const char* settings, headroom_loss_scale** out);
HEADROOM_API void headroom_loss_scale_free(headroom_loss_scale* policy);       /* may be NULL */
HEADROOM_API float headroom_loss_scale_get(const headroom_loss_scale* policy); /* the scale; 1 if policy is NULL */
/* Call it once after each step with what was found in the gradients. Only "amax" uses max_abs. */
HEADROOM_API headroom_status headroom_loss_scale_adjust(headroom_loss_scale* policy, int32_t finite, double max_abs);
/* The state as text. *size, in: bytes available at `text`; out: bytes needed, with the terminating 0. If text is NULL, only
 * sets *size. If the room is too small, the call fails. */
HEADROOM_API headroom_status headroom_loss_scale_save(const headroom_loss_scale* policy, char* text, size_t* size);
/* A policy that continues from this text. */
HEADROOM_API headroom_status headroom_loss_scale_load(const char* text, headroom_loss_scale** out);

/* ---- torch.amp.GradScaler ----
 * In each iteration: scale; backward; for each optimizer [unscale or unscale_and_clip], then step or step_into; update.
 * `optimizer` is a number of the caller's choice. Its gradients, `grads`, are the same ones in all calls of an iteration. */

typedef struct headroom_grad_scaler headroom_grad_scaler; /* a scaler */

/* What the caller does next. */
typedef struct headroom_step {
  uint32_t struct_size;     /* set by the caller */
  int32_t skipped;          /* 0: the caller steps its optimizer now */
  int32_t reason;           /* for skipping */
  float loss_scale;         /* by which the gradients have been divided */
  headroom_report report;   /* of the unscaled gradients */
  headroom_place nonfinite; /* both counts are 0 if only another rank or the norm overflowed */
} headroom_step;
enum { HEADROOM_SKIP_NONE = 0, HEADROOM_SKIP_NOT_FINITE = 1, HEADROOM_SKIP_NO_GRADIENTS = 2 }; /* reasons */

/* Called once for each optimizer and iteration with what was found in its gradients on this rank. Replaces these values by
 * those of all ranks: finite by AND, max_abs by maximum, sum_of_squares by sum. If k ranks hold the same gradients, divide the
 * sum by k. digest is equal on ranks that are in step. A reducer must not call the scaler. If it returns another status than
 * HEADROOM_OK, the call fails with HEADROOM_RUNTIME_ERROR. The gradients may then be unscaled already: abandon the iteration,
 * or let update count it as an overflow. */
typedef headroom_status (*headroom_reducer)(void* context, int32_t* finite, double* max_abs, double* sum_of_squares,
                                            uint64_t digest);

/* Copies the policy. NULL means the policy "torch". */
HEADROOM_API headroom_status headroom_grad_scaler_make(const headroom_loss_scale* policy, headroom_grad_scaler** out);
HEADROOM_API void headroom_grad_scaler_free(headroom_grad_scaler* scaler); /* may be NULL */
/* The scale of the next iteration; 1 if scaler is NULL. */
HEADROOM_API float headroom_grad_scaler_get_scale(const headroom_grad_scaler* scaler);
/* For all passes over gradients. The default is 1. */
HEADROOM_API headroom_status headroom_grad_scaler_set_threads(headroom_grad_scaler* scaler, int32_t threads);
/* NULL removes it. */
HEADROOM_API headroom_status headroom_grad_scaler_set_reducer(headroom_grad_scaler* scaler, headroom_reducer reducer,
                                                              void* context);
/* *scaled = loss * scale. Begins an iteration. A hand-written backward starts from the result for a loss of 1. */
HEADROOM_API headroom_status headroom_grad_scaler_scale(headroom_grad_scaler* scaler, double loss, double* scaled);
/* Unscales before the step, so that the caller can read or change the gradients. */
HEADROOM_API headroom_status headroom_grad_scaler_unscale(headroom_grad_scaler* scaler, uint64_t optimizer,
                                                          const headroom_tensor* grads, size_t n, headroom_report* report);
/* Also clips to max_norm. */
HEADROOM_API headroom_status headroom_grad_scaler_unscale_and_clip(headroom_grad_scaler* scaler, uint64_t optimizer,
                                                                   const headroom_tensor* grads, size_t n, double max_norm,
                                                                   headroom_report* report);
/* Unscales the gradients unless headroom_grad_scaler_unscale or _unscale_and_clip has, and reports whether to step. Refuses
 * fp16 and 8-bit gradients, most of which would become 0 in place: see headroom_grad_scaler_step_into. */
HEADROOM_API headroom_status headroom_grad_scaler_step(headroom_grad_scaler* scaler, uint64_t optimizer,
                                                       const headroom_tensor* grads, size_t n, headroom_step* step);
/* The same for gradients of any dtype. The unscaled ones go into `to`, usually floats. To clip them: headroom_clip(to, ...). */
HEADROOM_API headroom_status headroom_grad_scaler_step_into(headroom_grad_scaler* scaler, uint64_t optimizer,
                                                            const headroom_tensor* from, const headroom_tensor* to, size_t n,
                                                            headroom_step* step);
/* Ends the iteration: adjusts the scale. */
HEADROOM_API headroom_status headroom_grad_scaler_update(headroom_grad_scaler* scaler);
/* Ends the iteration without a decision, for example after an error in the backward pass. */
HEADROOM_API headroom_status headroom_grad_scaler_abandon(headroom_grad_scaler* scaler);
/* As headroom_loss_scale_save. Save after update: an iteration in progress is left out. */
HEADROOM_API headroom_status headroom_grad_scaler_save(const headroom_grad_scaler* scaler, char* text, size_t* size);
/* Continues with the policy and the settings that were saved. */
HEADROOM_API headroom_status headroom_grad_scaler_load(headroom_grad_scaler* scaler, const char* text);

#ifdef __cplusplus
}
#endif

#endif
