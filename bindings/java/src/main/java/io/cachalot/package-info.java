// SPDX-License-Identifier: MIT OR Apache-2.0
/**
 * PyTorch's CUDA caching allocator, for every program that is not PyTorch.
 *
 * <p>Given the same addresses by the driver, it hands out the same addresses, makes the same driver calls, counts the
 * same statistics, and writes the same history and messages as PyTorch 2.11 or 2.15. Without a GPU memory comes from
 * the host, or from a simulated device.
 *
 * <ul>
 *   <li>{@link io.cachalot.Driver}, {@link io.cachalot.Sim}: where memory comes from
 *   <li>{@link io.cachalot.Allocator}, {@link io.cachalot.AllocatorBuilder}, {@link io.cachalot.Options},
 *       {@link io.cachalot.Settings}: the allocator, its options and limits
 *   <li>{@link io.cachalot.Policy}, {@link io.cachalot.PolicyStats}: whose decisions it makes
 *   <li>{@link io.cachalot.Block}, {@link io.cachalot.Request}: memory that was handed out
 *   <li>{@link io.cachalot.PinnedBlock}, {@link io.cachalot.PinnedPool}, {@link io.cachalot.PinnedStats}: pinned host
 *       memory
 *   <li>{@link io.cachalot.Pool}, {@link io.cachalot.PoolKey}, {@link io.cachalot.Route}: private pools and captures
 *   <li>{@link io.cachalot.Pin}, {@link io.cachalot.PoolFlag#PINNED}: memory that others have registered
 *   <li>{@link io.cachalot.Tenant}: several users of one allocator
 *   <li>{@link io.cachalot.Stats}, {@link io.cachalot.Snapshot}, {@link io.cachalot.Report}: what is where, and what
 *       is in the way of a request
 *   <li>{@link io.cachalot.Label}, {@link io.cachalot.Observer}: who allocates, and who wants to see it
 *   <li>{@link io.cachalot.Trace}, {@link io.cachalot.Replay}: recorded runs
 * </ul>
 *
 * <p>Whatever is {@link java.lang.AutoCloseable} is to be closed; what nobody closed ends when the collector has
 * found it. Closing again does nothing; anything else that is done to what is closed is an
 * {@link java.lang.IllegalStateException}. No argument may be null, unless it is said: that is a
 * {@link java.lang.NullPointerException} with its name, and nothing has changed.
 *
 * <h2>Native code</h2>
 *
 * <p>The jar carries the native library for Linux on x86-64. Where another one is to be taken, or nothing may be
 * written: the folder that the system property {@code io.cachalot.library.path} names comes first, then the
 * environment variable {@code CACHALOT_LIB_DIR}, then the jar's copy, then {@code java.library.path}. The system
 * property {@code io.cachalot.tmpdir} names the folder in which the jar's copy is unpacked for as long as it takes to
 * load it.
 *
 * <p>A process has one copy of the library: class loaders share it, each with glue of its own, and also with a program
 * in C that has loaded it before. {@link io.cachalot.Cachalot#libraryPlace} says which it is.
 *
 * <p>From Java 24 on, the virtual machine warns of native code that was not allowed: start it with
 * {@code --enable-native-access=ALL-UNNAMED}, or {@code --enable-native-access=io.cachalot} where this is a module, or
 * write {@code Enable-Native-Access: ALL-UNNAMED} into the manifest of the program's jar.
 *
 * <h2>Threads</h2>
 *
 * <p>Any thread may call anything, virtual ones too. Labels, tenants and metadata of a virtual thread follow it from
 * carrier to carrier; requests of one cannot be routed to a pool by thread.
 */
package io.cachalot;
