// SPDX-License-Identifier: MIT OR Apache-2.0
import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.Structure;
import io.cachalot.Allocator;

/** libcachalot_libtorch.so: cachalot as libtorch's allocator. */
public final class Libtorch {
  /** As {@code cachalot_error}. */
  @Structure.FieldOrder({"structSize", "numbers", "message"})
  public static final class Failure extends Structure {
    public long structSize;
    public byte[] numbers = new byte[96];
    public byte[] message = new byte[4096];
  }

  private interface Functions extends Library {
    int cachalot_libtorch_install(Pointer allocator, int flags, Failure error);
  }

  // CACHALOT_LIBTORCH_ANY_DRIVER: memory of another driver than cuda, for tests without a GPU.
  private static final int ANY_DRIVER = 2;

  private static Allocator installed; // never closed, never collected

  private Libtorch() {}

  /**
   * Makes an allocator that of libtorch's CUDA memory, for the rest of the process.
   *
   * @param allocator not to be closed from here on
   * @throws IllegalStateException if no libtorch that cachalot knows is loaded, or if it uses CUDA already
   */
  public static synchronized void install(Allocator allocator) {
    Failure error = new Failure();
    error.structSize = error.size();
    int flags = System.getenv("CACHALOT_DRIVER") != null ? ANY_DRIVER : 0;
    Functions functions = Native.load("cachalot_libtorch", Functions.class);
    if (functions.cachalot_libtorch_install(new Pointer(allocator.handle()), flags, error) != 0) {
      throw new IllegalStateException(Native.toString(error.message, "UTF-8"));
    }
    installed = allocator;
  }
}
