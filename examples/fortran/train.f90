!> Learns a linear model with clipped gradients. A corrupt sample overflows in one step, which is skipped.
program train
  use headroom
  implicit none

  integer, parameter :: n_features = 16, n_steps = 600
  character(6), parameter :: names(2) = ['weight', 'bias  ']
  real(c_float) :: weight(n_features) = 0, bias = 0, true_weight(n_features), x(n_features), label, error
  real(c_float), target :: weight_grad(n_features), bias_grad
  type(headroom_tensor) :: grads(2)
  type(headroom_report) :: found
  type(headroom_step) :: result
  type(c_ptr) :: policy, scaler
  real(c_double) :: scale
  integer :: i, step, n_skipped = 0

  true_weight = [((i - 9) / 8.0, i = 1, n_features)]
  grads = [tensor(weight_grad), tensor(bias_grad)]
  call check(headroom_loss_scale_make('torch' // c_null_char, 'growth_interval = 50' // c_null_char, policy))
  call check(headroom_grad_scaler_make(policy, scaler))
  call headroom_loss_scale_free(policy)

  do step = 1, n_steps
    x = real([(sin(0.37d0 * real(n_features * step + i, c_double)**2), i = 1, n_features)], c_float)
    label = dot_product(true_weight, x) + 0.5
    if (step == 7) x(14) = 3e38

    ! The gradients of scale * Huber loss.
    call check(headroom_grad_scaler_scale(scaler, 1d0, scale))
    error = dot_product(weight, x) + bias - label
    bias_grad = real(scale, c_float) * max(-1.0, min(1.0, error))
    weight_grad = bias_grad * x

    call check(headroom_grad_scaler_unscale_and_clip(scaler, 1_c_int64_t, grads, 2_c_size_t, 1d0, found))
    call check(headroom_grad_scaler_step(scaler, 1_c_int64_t, grads, 2_c_size_t, result))
    if (result%skipped == 0) then
      weight = weight - 0.1 * weight_grad
      bias = bias - 0.1 * bias_grad
    else
      print '(a, i0, 5a, i0, a)', 'step ', step, ' skipped: ', merge('NaN', 'inf', result%nonfinite%is_nan == 1), ' in "', &
        trim(names(result%nonfinite%tensor + 1)), '"(', result%nonfinite%index + 1, ')'
      n_skipped = n_skipped + 1
    end if
    call check(headroom_grad_scaler_update(scaler))
  end do
  call headroom_grad_scaler_free(scaler)

  error = max(maxval(abs(weight - true_weight)), abs(bias - 0.5))
  print '(i0, a, i0, a, es8.1, a, es8.1)', n_skipped, ' of ', n_steps, ' steps skipped, last scale ', result%loss_scale, &
    ', largest error of a weight ', error
  if (n_skipped /= 1 .or. error > 0.001) error stop 1
end program
