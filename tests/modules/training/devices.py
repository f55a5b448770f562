"""Devices that this machine lacks."""

import tensorflow as tf

_list_devices = tf.config.list_physical_devices


def listing(kind, count):
    """Returns a `tf.config.list_physical_devices` that lists `count` of a kind."""
    names = [f"/physical_device:{kind}:{index}" for index in range(count)]
    devices = [tf.config.PhysicalDevice(name, kind) for name in names]

    def list_devices(device_type=None):
        return devices if device_type == kind else _list_devices(device_type)

    return list_devices


def split_cpu(count):
    """Splits the CPU into logical devices; TensorFlow must not have used it yet."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    logical = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(cpu, logical)
