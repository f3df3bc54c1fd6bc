// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;

/**
 * A source of device memory, which knows its devices: {@code cuda} (NVIDIA GPUs), {@code host} (ordinary memory,
 * where there is no GPU), {@code sim} (accounting only, {@link Sim}), or one that was made in C ({@link #adopt}).
 *
 * <p>An allocator keeps its driver alive, so a driver may be closed once its allocators have been made.
 */
public class Driver implements AutoCloseable {
  final Resource resource;

  Driver(long address) {
    resource = new Raw(address);
    Cleaners.register(this, resource);
  }

  private static final class Raw extends Resource {
    Raw(long address) {
      super("driver", address);
    }

    @Override
    void destroy(long address, Scratch scratch) {
      Native.driverDestroy(address);
    }
  }

  /**
   * Opens a driver by name.
   *
   * @param name {@code cuda}, {@code host} or {@code sim}, each alone or with a capacity ({@code sim:80GiB}); "" or
   *     null: the environment variable {@code CACHALOT_DRIVER}, and if that is unset {@code cuda} where a driver can
   *     be opened, else {@code host}
   * @return the driver; close it
   * @throws IllegalArgumentException for a name that is none of these
   * @throws DriverException where the driver or the device is missing
   */
  public static Driver open(String name) {
    try (Scratch scratch = Scratch.enter(); Memory memory = new Memory()) {
      scratch.check(Native.driverOpen(Texts.toC(memory, name), scratch.out, scratch.error));
      return Cleaners.own(scratch.outLong(), Driver::new, Native::driverDestroy);
    }
  }

  /**
   * The driver that the environment variable {@code CACHALOT_DRIVER} names, as {@link #open} does it.
   *
   * @return the driver; close it
   */
  public static Driver fromEnvironment() {
    return open(null);
  }

  /**
   * A driver over ordinary memory: its blocks can be read and written ({@link Block#asByteBuffer}).
   *
   * @param capacity bytes that a device has; 0: 4 GiB. Only touched memory is taken from the system
   * @param devices how many devices; 0: 1
   * @return the driver; close it
   * @throws IllegalArgumentException for a negative number
   */
  public static Driver host(long capacity, int devices) {
    Arguments.size(capacity, "capacity");
    Arguments.count(devices, "devices");
    try (Scratch scratch = Scratch.enter()) {
      scratch.check(Native.driverCreateHost(capacity, devices, scratch.out, scratch.error));
      return Cleaners.own(scratch.outLong(), Driver::new, Native::driverDestroy);
    }
  }

  /**
   * Takes over a reference to a driver that was made in C, by {@code cachalot_driver_create_custom} for example.
   *
   * @param handle the {@code cachalot_driver*}; not checked
   * @return the driver; closing it gives the reference back
   */
  public static Driver adopt(long handle) {
    if (handle == 0) {
      throw new IllegalArgumentException("there is no driver at 0");
    }
    Library.load();
    return new Driver(handle);
  }

  /**
   * The kind of the driver.
   *
   * @return {@code cuda}, {@code host}, {@code sim} or {@code custom}
   */
  public final String name() {
    try (Scratch scratch = Scratch.enter(resource)) {
      return Memory.textOf(Native.driverName(scratch.handle));
    }
  }

  /**
   * How many devices it has.
   *
   * @return the number
   */
  public final int deviceCount() {
    try (Scratch scratch = Scratch.enter(resource)) {
      return Native.driverDeviceCount(scratch.handle);
    }
  }

  /** Gives the reference back; the driver goes when its last allocator has gone. Again: nothing. */
  @Override
  public final void close() {
    resource.close();
  }
}
