! forms write FORM FILE TOLD, forms read FORM FILE [ACTION]: a file in one of Fortran's forms
!
! write: the first half; makes the file TOLD; waits for a line of standard input; then the second half.
! read: without ACTION by an open without action=.
program forms
  implicit none
  integer, parameter :: n = 5000
  character(512) :: role, form, action, file, told, line
  integer :: i, value, u

  call get_command_argument(1, role)
  call get_command_argument(2, form)
  call get_command_argument(3, file)
  call get_command_argument(4, action)
  if (role == 'write') then
     told = action
     call connect('replace', 'readwrite')
     do i = 1, n
        if (i == n / 2) then
           flush (u)
           open (newunit=value, file=told, status='new')
           close (value)
           read (*, '(a)') line
        end if
        call put(i)
     end do
     close (u)
  else
     call connect('old', action)
     do i = 1, n
        call get(i, value)
        if (value /= 7 * i) error stop 'wrong value'
     end do
     if (form == 'formatted' .or. form == 'unformatted') then
        read (u, *, iostat=i)
        if (i == 0) error stop 'too long'
     end if
     close (u)
  end if

contains

  subroutine connect(status, how)
    character(*), intent(in) :: status, how

    select case (form)
    case ('formatted')
       if (how == '') then
          open (newunit=u, file=file, status=status)
       else
          open (newunit=u, file=file, status=status, action=how)
       end if
    case ('unformatted')
       if (how == '') then
          open (newunit=u, file=file, status=status, form='unformatted')
       else
          open (newunit=u, file=file, status=status, form='unformatted', action=how)
       end if
    case ('stream')
       if (how == '') then
          open (newunit=u, file=file, status=status, form='unformatted', access='stream')
       else
          open (newunit=u, file=file, status=status, form='unformatted', access='stream', action=how)
       end if
    case ('direct')
       if (how == '') then
          open (newunit=u, file=file, status=status, form='unformatted', access='direct', recl=8)
       else
          open (newunit=u, file=file, status=status, form='unformatted', access='direct', recl=8, action=how)
       end if
    end select
  end subroutine

  subroutine put(k)
    integer, intent(in) :: k

    select case (form)
    case ('formatted')
       write (u, '(i0)') 7 * k
    case ('direct')
       write (u, rec=k) 7 * k, 0
    case default
       write (u) 7 * k
    end select
  end subroutine

  subroutine get(k, v)
    integer, intent(in) :: k
    integer, intent(out) :: v

    select case (form)
    case ('formatted')
       read (u, *) v
    case ('direct')
       read (u, rec=k) v
    case default
       read (u) v
    end select
  end subroutine
end program
