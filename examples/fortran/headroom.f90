!> headroom.h for Fortran 2018: the types, the functions that a training loop needs, and tensors of arrays of any rank.
module headroom
  use, intrinsic :: iso_c_binding
  implicit none
  public

  integer(c_int32_t), parameter :: headroom_float32 = 544

  type, bind(c) :: headroom_tensor
    type(c_ptr) :: data
    integer(c_int64_t) :: size
    integer(c_int32_t) :: dtype, ndim = 0
    type(c_ptr) :: shape = c_null_ptr, strides = c_null_ptr
  end type
  type, bind(c) :: headroom_report
    integer(c_int32_t) :: struct_size = 24, finite = 0
    real(c_double) :: max_abs = 0, norm = 0
  end type
  type, bind(c) :: headroom_place
    integer(c_int32_t) :: struct_size = 40, is_nan = 0
    integer(c_int64_t) :: tensor = 0, index = 0, nan_count = 0, inf_count = 0
  end type
  type, bind(c) :: headroom_step
    integer(c_int32_t) :: struct_size = 80, skipped = 0, reason = 0
    real(c_float) :: loss_scale = 1
    type(headroom_report) :: report
    type(headroom_place) :: nonfinite
  end type

  interface
    function headroom_last_error() bind(c)
      import
      type(c_ptr) :: headroom_last_error
    end function
    integer(c_int32_t) function headroom_loss_scale_make(name, settings, out) bind(c)
      import
      character(kind=c_char), intent(in) :: name(*), settings(*)
      type(c_ptr), intent(out) :: out
    end function
    subroutine headroom_loss_scale_free(policy) bind(c)
      import
      type(c_ptr), value :: policy
    end subroutine
    integer(c_int32_t) function headroom_grad_scaler_make(policy, out) bind(c)
      import
      type(c_ptr), value :: policy
      type(c_ptr), intent(out) :: out
    end function
    subroutine headroom_grad_scaler_free(scaler) bind(c)
      import
      type(c_ptr), value :: scaler
    end subroutine
    integer(c_int32_t) function headroom_grad_scaler_scale(scaler, loss, scaled) bind(c)
      import
      type(c_ptr), value :: scaler
      real(c_double), value :: loss
      real(c_double), intent(out) :: scaled
    end function
    integer(c_int32_t) function headroom_grad_scaler_unscale_and_clip(scaler, optimizer, grads, n, max_norm, report) bind(c)
      import
      type(c_ptr), value :: scaler
      integer(c_int64_t), value :: optimizer
      type(headroom_tensor), intent(in) :: grads(*)
      integer(c_size_t), value :: n
      real(c_double), value :: max_norm
      type(headroom_report), intent(inout) :: report
    end function
    integer(c_int32_t) function headroom_grad_scaler_step(scaler, optimizer, grads, n, step) bind(c)
      import
      type(c_ptr), value :: scaler
      integer(c_int64_t), value :: optimizer
      type(headroom_tensor), intent(in) :: grads(*)
      integer(c_size_t), value :: n
      type(headroom_step), intent(inout) :: step
    end function
    integer(c_int32_t) function headroom_grad_scaler_update(scaler) bind(c)
      import
      type(c_ptr), value :: scaler
    end function
    integer(c_size_t) function strlen(text) bind(c)
      import
      type(c_ptr), value :: text
    end function
  end interface

contains

  !> A contiguous array of real(c_float). It must be a target as long as the tensor is used.
  type(headroom_tensor) function tensor(array)
    real(c_float), target, intent(in) :: array(..)
    if (.not. is_contiguous(array)) error stop 'headroom: the array is not contiguous'
    tensor = headroom_tensor(c_loc(array), size(array, kind=c_int64_t), headroom_float32)
  end function

  subroutine check(status)
    integer(c_int32_t), intent(in) :: status
    character(kind=c_char), pointer :: text(:)
    if (status == 0) return
    call c_f_pointer(headroom_last_error(), text, [strlen(headroom_last_error())])
    print '(*(a))', text
    error stop 1
  end subroutine
end module
