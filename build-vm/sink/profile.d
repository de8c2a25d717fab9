build-vm/sink/profile.o: src/sink/profile.c src/sink/profile.h \
 src/io/writer.h src/sink/sink.h src/engine/engine.h src/probe.h \
 src/record.h src/record.h src/target/tasks.h src/util/fmt.h \
 src/util/names.h
src/sink/profile.h:
src/io/writer.h:
src/sink/sink.h:
src/engine/engine.h:
src/probe.h:
src/record.h:
src/record.h:
src/target/tasks.h:
src/util/fmt.h:
src/util/names.h:
