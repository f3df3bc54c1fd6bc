// SPDX-License-Identifier: MIT OR Apache-2.0
// TorchSharp on cachalot. There is no binding for C#, so the functions of the C interface are called as they are.
using System;
using System.Runtime.InteropServices;
using System.Text;
using TorchSharp;
using static TorchSharp.torch;

static class Cachalot
{
    const string Library = "cachalot";           // libcachalot.so
    const string Libtorch = "cachalot_libtorch"; // libcachalot_libtorch.so

    // cachalot_error: its size, numbers, a message.
    const int ErrorSize = 4200;
    const int MessageOffset = 104;

    [DllImport(Library)] static extern int cachalot_allocator_create(IntPtr options, out IntPtr allocator,
        byte[] error);
    [DllImport(Libtorch)] static extern int cachalot_libtorch_install(IntPtr allocator, uint flags, byte[] error);
    [DllImport(Library)] static extern int cachalot_trim(IntPtr allocator, int device, ulong keepBytes, ulong minIdleNs,
        out ulong releasedBytes, byte[] error);
    [DllImport(Library)] static extern int cachalot_set_memory_fraction(IntPtr allocator, int device, double fraction,
        byte[] error);
    [DllImport(Library)] static extern ulong cachalot_memory_allocated(IntPtr allocator, int device);
    [DllImport(Library)] static extern ulong cachalot_memory_reserved(IntPtr allocator, int device);

    static IntPtr allocator; // never destroyed

    static void Check(Func<byte[], int> call)
    {
        var error = new byte[ErrorSize];
        BitConverter.TryWriteBytes(error, (ulong)ErrorSize);
        if (call(error) == 0) return;
        var length = Array.IndexOf(error, (byte)0, MessageOffset) - MessageOffset;
        throw new InvalidOperationException(Encoding.UTF8.GetString(error, MessageOffset, length));
    }

    public static void Install()
    {
        Check(error => cachalot_allocator_create(IntPtr.Zero, out allocator, error));
        Check(error => cachalot_libtorch_install(allocator, 0, error));
    }

    public static ulong Allocated(int device) => cachalot_memory_allocated(allocator, device);
    public static ulong Reserved(int device) => cachalot_memory_reserved(allocator, device);

    public static ulong Trim(int device)
    {
        ulong released = 0;
        Check(error => cachalot_trim(allocator, device, 0, 0, out released, error));
        return released;
    }

    public static void SetMemoryFraction(int device, double fraction) =>
        Check(error => cachalot_set_memory_fraction(allocator, device, fraction, error));
}

static class Tensors
{
    static void Main()
    {
        if (!cuda.is_available()) return; // loads libtorch's CUDA library, and uses no CUDA yet
        Cachalot.Install();               // before the first tensor on the GPU

        using (var tensor = empty(20 << 20, dtype: ScalarType.Byte, device: CUDA))
            Console.WriteLine($"tensor of {tensor.numel()}: {Cachalot.Allocated(0)} bytes of {Cachalot.Reserved(0)}");
        Console.WriteLine($"given back: {Cachalot.Trim(0)} bytes");

        Cachalot.SetMemoryFraction(0, 0.001);
        try
        {
            using var tensor = empty(1L << 30, dtype: ScalarType.Byte, device: CUDA);
            Console.WriteLine("there was memory");
        }
        catch (ExternalException error)
        {
            Console.WriteLine(error.Message.Split('\n')[0]);
        }
    }
}
