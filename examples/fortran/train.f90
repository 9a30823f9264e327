!> Learns a linear model through headroom.h. A corrupt sample overflows in one step, which is skipped. Half-way, the state is saved
!> and loaded. Declare further functions of headroom.h in the same way.
program train
  use, intrinsic :: iso_c_binding
  implicit none
  type, bind(c) :: headroom_tensor
    type(c_ptr) :: data; integer(c_int64_t) :: size
    integer(c_int32_t) :: dtype = 544, ndim = 0 ! HEADROOM_FLOAT32
    type(c_ptr) :: shape = c_null_ptr, strides = c_null_ptr
  end type
  type, bind(c) :: headroom_step ! with its report and its place
    integer(c_int32_t) :: struct_size = 80, skipped = 0, reason = 0; real(c_float) :: loss_scale = 1
    integer(c_int32_t) :: report_size = 24, finite = 0; real(c_double) :: max_abs = 0, norm = 0
    integer(c_int32_t) :: place_size = 40, is_nan = 0; integer(c_int64_t) :: tensor = 0, index = 0, nan_count = 0, inf_count = 0
  end type
  interface
    integer(c_int32_t) function headroom_loss_scale_make(name, settings, out) bind(c)
      import; character(kind=c_char), intent(in) :: name(*), settings(*); type(c_ptr), intent(out) :: out; end function
    integer(c_int32_t) function headroom_grad_scaler_make(policy, out) bind(c)
      import; type(c_ptr), value :: policy; type(c_ptr), intent(out) :: out; end function
    subroutine headroom_loss_scale_free(policy) bind(c)
      import; type(c_ptr), value :: policy; end subroutine
    subroutine headroom_grad_scaler_free(scaler) bind(c)
      import; type(c_ptr), value :: scaler; end subroutine
    integer(c_int32_t) function headroom_grad_scaler_scale(scaler, loss, scaled) bind(c)
      import; type(c_ptr), value :: scaler; real(c_double), value :: loss; real(c_double), intent(out) :: scaled; end function
    integer(c_int32_t) function headroom_grad_scaler_step(scaler, optimizer, grads, n, step) bind(c)
      import; type(c_ptr), value :: scaler; integer(c_int64_t), value :: optimizer; integer(c_size_t), value :: n
      type(headroom_tensor), intent(in) :: grads(*); type(headroom_step), intent(inout) :: step; end function
    integer(c_int32_t) function headroom_grad_scaler_update(scaler) bind(c)
      import; type(c_ptr), value :: scaler; end function
    integer(c_int32_t) function headroom_grad_scaler_save(scaler, text, size) bind(c)
      import; type(c_ptr), value :: scaler; character(kind=c_char) :: text(*); integer(c_size_t) :: size; end function
    integer(c_int32_t) function headroom_grad_scaler_load(scaler, text) bind(c)
      import; type(c_ptr), value :: scaler; character(kind=c_char), intent(in) :: text(*); end function
  end interface

  real(c_float) :: weight(4) = 0, bias = 0, x(4), label, error
  real(c_float), parameter :: true_weight(4) = [0.0, 0.25, 0.5, 0.75]
  real(c_float), target :: weight_grad(4), bias_grad
  type(headroom_tensor) :: grads(2); type(headroom_step) :: result
  type(c_ptr) :: policy, scaler; real(c_double) :: scale
  character(kind=c_char) :: text(4096)
  integer(c_size_t) :: size = 4096
  integer :: i, step, n_skipped = 0, failed

  grads = [headroom_tensor(c_loc(weight_grad), 4), headroom_tensor(c_loc(bias_grad), 1)]
  failed = headroom_loss_scale_make('torch' // c_null_char, 'growth_interval = 50' // c_null_char, policy)
  failed = failed + headroom_grad_scaler_make(policy, scaler)
  do step = 1, 600
    x = real([(sin(0.37d0 * real(4 * step + i, c_double)**2), i = 1, 4)], c_float)
    label = dot_product(true_weight, x) + 0.5
    if (step == 7) x(3) = 3e38
    failed = failed + headroom_grad_scaler_scale(scaler, 1d0, scale)
    error = dot_product(weight, x) + bias - label
    bias_grad = real(scale, c_float) * max(-1.0, min(1.0, error)) ! the gradients of scale * Huber loss
    weight_grad = bias_grad * x
    failed = failed + headroom_grad_scaler_step(scaler, 0_c_int64_t, grads, 2_c_size_t, result) ! unscales
    if (result%skipped == 0) then
      weight = weight - 0.1 * weight_grad
      bias = bias - 0.1 * bias_grad
    else
      print '(a, i0, 5a, i0, a)', 'step ', step, ' skipped: ', merge('NaN', 'inf', result%is_nan == 1), ' in "', &
        trim(merge('weight', 'bias  ', result%tensor == 0)), '"(', result%index + 1, ')'
      n_skipped = n_skipped + 1
    end if
    failed = failed + headroom_grad_scaler_update(scaler)
    if (step == 300) then
      failed = failed + headroom_grad_scaler_save(scaler, text, size)
      call headroom_grad_scaler_free(scaler)
      failed = failed + headroom_grad_scaler_make(policy, scaler) + headroom_grad_scaler_load(scaler, text)
    end if
  end do
  call headroom_grad_scaler_free(scaler)
  call headroom_loss_scale_free(policy)

  error = max(maxval(abs(weight - true_weight)), abs(bias - 0.5))
  print '(i0, a, es8.1, a, es8.1)', n_skipped, ' of 600 steps skipped, last scale ', scale, ', largest error of a weight ', error
  if (failed /= 0 .or. n_skipped /= 1 .or. abs(scale - 32768d0 * 2048) > 0 .or. error > 0.001) error stop 1
end program
