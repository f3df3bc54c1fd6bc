// SPDX-License-Identifier: MIT OR Apache-2.0
import ai.djl.Device;
import ai.djl.engine.Engine;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import io.cachalot.Allocator;
import java.time.Duration;

/** Whose memory it is that arrays of DJL lie in, how it is given back, and what an out of memory says. */
public final class Tensors {
  private Tensors() {}

  public static void main(String[] arguments) {
    Engine.getEngine("PyTorch"); // loads libtorch
    Allocator allocator = Allocator.create();
    Libtorch.install(allocator); // before the first array on the GPU

    try (NDManager manager = NDManager.newBaseManager(Device.gpu(), "PyTorch");
        NDArray array = manager.create(new Shape(20 << 20), DataType.UINT8)) {
      System.out.printf("array of %d: %d bytes of %d%n", array.size(), allocator.memoryAllocated(0),
          allocator.memoryReserved(0));
    }
    System.out.printf("given back: %d bytes%n", allocator.trim(0, 0, Duration.ZERO));

    allocator.setMemoryFraction(0, 0.001);
    try (NDManager manager = NDManager.newBaseManager(Device.gpu(), "PyTorch");
        NDArray array = manager.create(new Shape(1L << 30), DataType.UINT8)) {
      System.out.println("there was memory for " + array.size());
    } catch (RuntimeException error) {
      System.out.println(error.getMessage().lines().findFirst().orElse(""));
    }
  }
}
